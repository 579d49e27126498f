#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "thalweg/core/check.h"
#include "thalweg/core/dtype.h"

namespace thalweg::cpu::onednn {

// The engine, made on first use after the process-wide settings; it outlives static destructors of the host program.
const dnnl::engine& engine();
const dnnl::stream& stream();  // of the calling thread

bool bf16_supported();
dnnl::memory::data_type data_type(DType dtype);  // f32 and bf16

dnnl::primitive make_primitive(const dnnl::primitive_desc_base& description);

// Runs a primitive whose memory objects have their data set.
void execute(const dnnl::primitive& primitive, const dnnl_exec_arg_t* args, int count);

// oneDNN works on the calling thread alone while one lives: primitives are created and run under one OpenMP thread,
// which makes no team. The thread's own setting returns afterwards.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

struct CacheCounters {
  std::atomic<std::int64_t> hits{0}, misses{0}, evictions{0}, entries{0};
};
CacheCounters& cache_counters();

inline std::size_t hash_combine(std::size_t seed, std::int64_t value) {
  seed = (seed ^ static_cast<std::size_t>(value)) * 0x9E3779B97F4A7C15u;
  return seed ^ (seed >> 29);
}

// Exact-key cache, least recently used out first. One per thread, because the memory objects inside hold pointers.
template <class Key, class Value, class Hash>
class PrimitiveCache {
 public:
  static constexpr std::size_t kCapacity = 128;  // entries a thread and kind of primitive

  PrimitiveCache() = default;
  PrimitiveCache(const PrimitiveCache&) = delete;
  PrimitiveCache& operator=(const PrimitiveCache&) = delete;
  ~PrimitiveCache() { cache_counters().entries.fetch_sub(size(), std::memory_order_relaxed); }

  Value& get(const Key& key) {
    auto& counters = cache_counters();
    if (const auto found = index_.find(key); found != index_.end()) {
      counters.hits.fetch_add(1, std::memory_order_relaxed);
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    counters.misses.fetch_add(1, std::memory_order_relaxed);
    Value made = make(key);  // before the cache changes: it may look up another entry or throw
    order_.emplace_front(key, std::move(made));
    index_.emplace(key, order_.begin());
    counters.entries.fetch_add(1, std::memory_order_relaxed);
    if (order_.size() > kCapacity) evict();
    return order_.front().second;
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(order_.size()); }

  static Value make(const Key& key) {
    try {
      return Value(key);
    } catch (const dnnl::error& error) {
      TW_FAIL(internal, "onednn", "report the operation and its shapes", "{} (status {})", error.what(),
              static_cast<int>(error.status));
    }
  }

  void evict() {
    index_.erase(order_.back().first);
    order_.pop_back();
    cache_counters().evictions.fetch_add(1, std::memory_order_relaxed);
    cache_counters().entries.fetch_sub(1, std::memory_order_relaxed);
  }

  std::list<std::pair<const Key, Value>> order_;  // most recent first
  std::unordered_map<Key, typename std::list<std::pair<const Key, Value>>::iterator, Hash> index_;
};

}  // namespace thalweg::cpu::onednn
