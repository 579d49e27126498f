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

// The same by comparing all with all.
std::int64_t plain_pack(std::vector<Interval>& intervals) {
  std::vector<Interval*> order;
  for (auto& interval : intervals) order.push_back(&interval);
  std::stable_sort(order.begin(), order.end(), [](const Interval* a, const Interval* b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->last - a->first > b->last - b->first;
  });
  std::vector<Interval*> placed;
  std::int64_t total = 0;
  for (Interval* interval : order) {
    interval->bytes = (interval->bytes + 63) / 64 * 64;
    std::int64_t end = 0, best = -1, best_gap = 0;
    for (const Interval* other : placed) {
      if (other->last < interval->first || other->first > interval->last) continue;
      const std::int64_t gap = other->offset - end;
      if (gap >= interval->bytes && (best < 0 || gap < best_gap)) best = end, best_gap = gap;
      if (gap == interval->bytes) break;
      end = std::max(end, other->offset + other->bytes);
    }
    interval->offset = best >= 0 ? best : end;
    total = std::max(total, interval->offset + interval->bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), interval,
                                   [](const Interval* a, const Interval* b) { return a->offset < b->offset; }),
                  interval);
  }
  return total;
}

// Layers of a deep model: some values live until the backward pass, most for a few steps; sizes come again.
std::vector<Interval> deep_intervals(std::mt19937& generator, int layers) {
  std::vector<Interval> intervals;
  const auto below = [&](int n) { return static_cast<int>(generator() % static_cast<unsigned>(n)); };
  for (int i = 0; i < layers; ++i) {
    intervals.push_back({4096, i, 2 * layers - i});
    intervals.push_back({64 << below(6), i, i + below(3)});
    intervals.push_back({below(5) * 1000, 2 * layers - i, 2 * layers - i + below(4)});
  }
  return intervals;
}

TEST(Arena, every_interval_stands_where_comparing_all_with_all_puts_it) {
  std::mt19937 generator(2);
  for (int round = 0; round < 40; ++round) {
    std::vector<Interval> intervals =
        round % 3 == 0 ? random_intervals(generator) : deep_intervals(generator, 10 * round);
    std::vector<Interval> plain = intervals;
    EXPECT_EQ(pack(intervals), plain_pack(plain));
    for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(intervals[i].offset, plain[i].offset) << round << ' ' << i;
  }
}

TEST(Arena, memory_is_taken_again) {
  std::vector<Interval> intervals = {{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}};
  EXPECT_EQ(pack(intervals), 2048);
  EXPECT_EQ(live_bytes(intervals, 5), (std::vector<std::int64_t>{1024, 2048, 2048, 2048, 1024}));
}

}  // namespace
}  // namespace thalweg
