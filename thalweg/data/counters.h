#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "thalweg/data/statistics.h"

namespace thalweg::data {

class Node;

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The counters of a stage. `elements` has one writer at a time.
struct StageCounters {
  std::atomic<std::int64_t> elements{0}, busy_ns{0}, wait_ns{0}, buffered{0}, capacity{0};
  std::atomic<int> workers{0};

  void count() { elements.store(elements.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void add_busy(std::int64_t ns) { busy_ns.fetch_add(ns, std::memory_order_relaxed); }
};

// Adds the time it lives to the busy time of a stage. Of many short ones only every sixteenth is measured, and stands
// for the others.
class BusyTime {
 public:
  explicit BusyTime(StageCounters& counters) : counters_(&counters), begin_(now_ns()), weight_(1) {}
  BusyTime(StageCounters& counters, std::int64_t number)
      : counters_((number & 15) == 0 ? &counters : nullptr), begin_(counters_ ? now_ns() : 0), weight_(16) {}
  ~BusyTime() {
    if (counters_) counters_->add_busy(weight_ * (now_ns() - begin_));
  }
  BusyTime(const BusyTime&) = delete;

 private:
  StageCounters* counters_;
  std::int64_t begin_, weight_;
};

// The counters of all stages of a dataset.
class Counters {
 public:
  StageCounters& of(const Node& node);
  DatasetStats stats(const Node& last);

  std::atomic<std::int64_t> elements{0}, wait_ns{0}, total_ns{0};

 private:
  void add_stages(const Node& node, DatasetStats& stats);
  std::mutex mutex_;
  std::map<const Node*, std::unique_ptr<StageCounters>> stages_;
};

}  // namespace thalweg::data
