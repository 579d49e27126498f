#include "thalweg/core/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "thalweg/core/block_cache.h"
#include "thalweg/core/check.h"
#include "thalweg/core/memory_counts.h"
#include "thalweg/core/variable.h"

namespace thalweg {
namespace memory {
namespace {

struct Counters {
  alignas(64) std::atomic<std::int64_t> in_use{0};
  alignas(64) std::atomic<std::int64_t> peak{0}, limit{0};  // mostly read
  std::mutex names_mutex;
  std::array<const char*, max_owners> names{"tensor", "variable"};
  int owners = 2;
};

Counters& counters() {
  static auto* state = new Counters;
  return *state;
}

void raise(std::atomic<std::int64_t>& largest, std::int64_t now) {
  auto known = largest.load(std::memory_order_relaxed);
  while (now > known && !largest.compare_exchange_weak(known, now, std::memory_order_relaxed)) {
  }
}

std::vector<MemoryInfo::Share> shares() {
  auto& count = counters();
  std::vector<MemoryInfo::Share> result;
  std::lock_guard lock(count.names_mutex);
  for (int i = 0; i < count.owners; ++i) {
    const auto index = static_cast<std::size_t>(i);
    if (auto bytes = owned_bytes(i)) result.push_back({count.names[index], bytes});
  }
  std::stable_sort(result.begin(), result.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
  return result;
}

std::string list_shares(const std::vector<MemoryInfo::Share>& list, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, list.size()); ++i)
    text += fmt::format("{}{} {}", i ? ", " : "", list[i].name, format_bytes(list[i].bytes));
  if (list.size() > most) text += fmt::format(" and {} more", list.size() - most);
  return text.empty() ? "none" : text;
}

[[noreturn]] void out_of_memory(std::int64_t bytes, Owner by, bool limited) {
  auto& count = counters();
  const auto limit = count.limit.load();
  const char* name = count.names[by];
  TW_FAIL(resource_exhausted, name,
          limited ? "use a smaller batch, free tensors or a persistent tape, or raise config::memory_limit"
                  : "use a smaller batch or set config::memory_limit below the machine's memory",
          "out of memory on cpu:0: requested {}, in use {}, {}; by op: {}; largest variables: {}", format_bytes(bytes),
          format_bytes(count.in_use.load()), limited ? "limit " + format_bytes(limit) : "the system refused",
          list_shares(shares(), 5), list_shares(live_variables(), 5));
}

// Returns the bytes in use with these. What is over the limit is never counted: it would be in the way of others.
std::int64_t count_in(std::int64_t bytes, Owner by) {
  auto& count = counters();
  const auto limit = count.limit.load(std::memory_order_relaxed);
  std::int64_t now = 0;
  if (limit == 0) {
    now = count.in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  } else {
    auto before = count.in_use.load(std::memory_order_relaxed);
    do {
      now = before + bytes;
      if (now > limit) out_of_memory(bytes, by, true);
    } while (!count.in_use.compare_exchange_weak(before, now, std::memory_order_relaxed));
  }
  add_owned(by, bytes);
  return now;
}

// Of this thread.
struct SinceMark {
  std::int64_t taken = 0, most = 0;
};
thread_local SinceMark since_mark;

// Only what the system granted counts in the peak.
void count_granted(std::int64_t bytes, std::int64_t in_use) {
  raise(counters().peak, in_use);
  since_mark.taken += bytes;
  since_mark.most = std::max(since_mark.most, since_mark.taken);
  add_allocation();
}

void count_out(std::int64_t bytes, Owner by) {
  since_mark.taken -= bytes;
  counters().in_use.fetch_sub(bytes, std::memory_order_relaxed);
  add_owned(by, -bytes);
}

}  // namespace

std::int64_t in_use() { return counters().in_use.load(std::memory_order_relaxed); }
std::int64_t high_mark() { return since_mark.most; }
void set_mark() { since_mark = {}; }

Owner owner(const char* name) {
  auto& count = counters();
  std::lock_guard lock(count.names_mutex);
  for (int i = 0; i < count.owners; ++i)
    if (std::strcmp(count.names[static_cast<std::size_t>(i)], name) == 0) return static_cast<Owner>(i);
  TW_CHECK_INTERNAL(count.owners < max_owners, name, "more than {} owners of memory", max_owners);
  count.names[static_cast<std::size_t>(count.owners)] = name;
  return static_cast<Owner>(count.owners++);
}

}  // namespace memory

Ref<Buffer> Buffer::allocate(std::int64_t bytes, memory::Owner owner) {
  const std::int64_t size = std::max<std::int64_t>(memory::rounded(bytes), memory::alignment);
  const std::int64_t in_use = memory::count_in(size, owner);
  void* data = memory::take_block(size);
  if (!data) [[unlikely]] {
    memory::drop_cached();
    data = memory::take_block(size);
    if (!data) {
      memory::count_out(size, owner);
      memory::out_of_memory(size, owner, false);
    }
  }
  memory::count_granted(size, in_use);
  return Ref<Buffer>(new Buffer(data, size, owner, nullptr));
}

Ref<Buffer> Buffer::wrap(void* data, std::int64_t bytes, std::shared_ptr<const void> keep) {
  return Ref<Buffer>(new Buffer(data, bytes, memory::by_user, std::move(keep)));
}

Ref<Buffer> Buffer::symbolic(std::shared_ptr<const std::string> name) {
  return Ref<Buffer>(new Buffer(nullptr, -1, memory::by_user, std::move(name)));
}

Buffer::~Buffer() {
  if (keep_) return;
  memory::count_out(bytes_, owner_);
  memory::give_block(data_, bytes_);
}

void Buffer::set_owner(memory::Owner owner) {
  if (keep_) return;
  const memory::Owner before = owner_.exchange(owner, std::memory_order_relaxed);
  if (before == owner) return;
  memory::add_owned(before, -bytes_);
  memory::add_owned(owner, bytes_);
}

void* Buffer::operator new(std::size_t size) { return memory::take_object(static_cast<std::int64_t>(size)); }
void Buffer::operator delete(void* object, std::size_t size) {
  memory::give_object(object, static_cast<std::int64_t>(size));
}

namespace config {

void memory_limit(Device, std::int64_t bytes) {
  TW_CHECK_USER(bytes >= 0, "memory_limit", "pass bytes, for example tw::GiB(2), or 0 for no limit",
                "expected a limit of 0 or more, got {}", bytes);
  memory::counters().limit.store(bytes);
}

MemoryInfo memory_info(Device) {
  auto& count = memory::counters();
  return {.in_use = count.in_use.load(),
          .peak = count.peak.load(),
          .limit = count.limit.load(),
          .cached = memory::cached_bytes(),
          .allocations = memory::allocations(),
          .owners = memory::shares()};
}

void reset_peak_memory(Device) {
  auto& count = memory::counters();
  count.peak.store(count.in_use.load());
}

void trim(Device) { memory::drop_cached(); }

}  // namespace config
}  // namespace thalweg
