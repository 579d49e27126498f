#pragma once

// Tasks dealt to several takers, each of which begins in a part of its own: neighbouring tasks, which mostly touch
// neighbouring data, meet the same thread from one op to the next and find what it left in its caches. On two cores
// without a common third-level cache a step of `cnn` takes 4.6 instead of 6.1 ms so. Who is done with its part helps
// with the next ones, so that nobody waits for one taker. No order of tasks may be relied upon.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace thalweg {

class TaskParts {
 public:
  static constexpr std::int64_t none = -1;

  TaskParts() {}
  TaskParts(std::int64_t tasks, std::int64_t takers) { deal(tasks, takers); }

  // While nobody takes.
  void deal(std::int64_t tasks, std::int64_t takers) {
    if (const auto parts = std::clamp<std::int64_t>(takers, 1, most); parts != parts_)
      parts_ = parts;  // others read it
    for (std::int64_t i = 0; i < parts_; ++i) {
      Part& part = part_[static_cast<std::size_t>(i)];
      part.next = begin(tasks, i);
      part.end = begin(tasks, i + 1);
    }
  }

  // The next task for this taker; none: all are taken.
  std::int64_t take(std::int64_t taker) {
    for (std::int64_t i = 0; i < parts_; ++i) {
      Part& part = part_[static_cast<std::size_t>((taker + i) % parts_)];
      const std::atomic_ref next(part.next);
      if (next.load(std::memory_order_relaxed) >= part.end) continue;
      if (const std::int64_t task = next.fetch_add(1, std::memory_order_relaxed); task < part.end) return task;
    }
    return none;
  }

 private:
  static constexpr std::int64_t most = 64;  // takers beyond share parts

  struct alignas(64) Part {
    std::int64_t next, end;
  };

  std::int64_t begin(std::int64_t tasks, std::int64_t part) const {
    return tasks / parts_ * part + std::min(part, tasks % parts_);
  }

  std::int64_t parts_ = 0;
  std::array<Part, most> part_;  // as many as there are parts are set
};

}  // namespace thalweg
