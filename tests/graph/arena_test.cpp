#include "thalweg/plan/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace thalweg {
namespace {

constexpr int steps = 40;

std::vector<Interval> random_intervals(std::mt19937& generator) {
  std::vector<Interval> intervals;
  const auto below = [&](int n) { return static_cast<int>(generator() % static_cast<unsigned>(n)); };
  for (int count = below(60); count > 0; --count) {
    const int first = below(steps), last = std::min(steps - 1, first + below(below(4) == 0 ? steps : 5));
    intervals.push_back({below(4) == 0 ? below(100000) : below(300), first, last, 0});
  }
  return intervals;
}

TEST(Arena, intervals_that_live_together_do_not_overlap) {
  std::mt19937 generator(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<Interval> intervals = random_intervals(generator);
    const auto live = live_bytes(intervals, steps);
    const std::int64_t total = pack(intervals), bound = *std::max_element(live.begin(), live.end());
    EXPECT_GE(total, bound);
    EXPECT_LE(total, 2 * bound) << "round " << round;
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      const Interval& a = intervals[i];
      EXPECT_EQ(a.offset % 64, 0);
      EXPECT_LE(a.offset + a.bytes, total);
      for (std::size_t k = 0; k < i; ++k) {
        const Interval& b = intervals[k];
        const bool together = a.first <= b.last && b.first <= a.last;
        const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        EXPECT_TRUE(!together || apart) << "round " << round << ": " << i << " and " << k;
      }
    }
  }
}

TEST(Arena, memory_is_taken_again) {
  std::vector<Interval> intervals = {{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}};
  EXPECT_EQ(pack(intervals), 2048);
  EXPECT_EQ(live_bytes(intervals, 5), (std::vector<std::int64_t>{1024, 2048, 2048, 2048, 1024}));
}

}  // namespace
}  // namespace thalweg
