#include "thalweg/plan/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace thalweg {
namespace {

// The tightest gap between the placed intervals that live at the same time; they are sorted by offset.
std::int64_t best_offset(const Interval& wanted, const std::vector<Interval>& placed) {
  std::int64_t end = 0, best = -1, best_gap = std::numeric_limits<std::int64_t>::max();
  for (const Interval& other : placed) {
    if (other.last < wanted.first || other.first > wanted.last) continue;
    const std::int64_t gap = other.offset - end;
    if (gap == wanted.bytes) return end;
    if (gap > wanted.bytes && gap < best_gap) best = end, best_gap = gap;
    end = std::max(end, other.offset + other.bytes);
  }
  return best >= 0 ? best : end;
}

}  // namespace

std::int64_t pack(std::vector<Interval>& intervals) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (intervals[a].bytes != intervals[b].bytes) return intervals[a].bytes > intervals[b].bytes;
    return intervals[a].last - intervals[a].first > intervals[b].last - intervals[b].first;
  });
  std::vector<Interval> placed;  // copies, one after the other: they are walked over and over
  placed.reserve(intervals.size());
  std::int64_t total = 0;
  for (std::size_t index : order) {
    Interval& interval = intervals[index];
    interval.bytes = (interval.bytes + 63) / 64 * 64;
    interval.offset = best_offset(interval, placed);
    total = std::max(total, interval.offset + interval.bytes);
    const auto at = std::upper_bound(placed.begin(), placed.end(), interval,
                                     [](const Interval& a, const Interval& b) { return a.offset < b.offset; });
    placed.insert(at, interval);
  }
  return total;
}

std::vector<std::int64_t> live_bytes(const std::vector<Interval>& intervals, int steps) {
  std::vector<std::int64_t> change(static_cast<std::size_t>(steps) + 1, 0);
  for (const auto& interval : intervals) {
    const std::int64_t bytes = (interval.bytes + 63) / 64 * 64;
    change[static_cast<std::size_t>(std::max(interval.first, 0))] += bytes;
    const int after = std::min(interval.last, steps - 1) + 1;
    change[static_cast<std::size_t>(after)] -= bytes;
  }
  std::vector<std::int64_t> live(static_cast<std::size_t>(steps), 0);
  std::partial_sum(change.begin(), change.end() - 1, live.begin());
  return live;
}

}  // namespace thalweg
