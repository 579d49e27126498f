#include "thalweg/plan/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace thalweg {
namespace {

// Some intervals that have an offset, side by side in the order of offsets, and what can be said of them together.
class Block {
 public:
  std::size_t size() const { return intervals_.size(); }
  std::int64_t offset() const { return intervals_.front().offset; }

  // Behind those of the same offset.
  void add(const Interval& interval) {
    const auto at = std::upper_bound(intervals_.begin(), intervals_.end(), interval,
                                     [](const Interval& a, const Interval& b) { return a.offset < b.offset; });
    intervals_.insert(at, interval);
    describe();
  }
  Block take_half() {  // the later one
    Block half;
    const auto middle = intervals_.begin() + static_cast<std::ptrdiff_t>(size() / 2);
    half.intervals_.assign(middle, intervals_.end());
    intervals_.erase(middle, intervals_.end());
    describe(), half.describe();
    return half;
  }

  // Whether none of them lives at the same time, and whether all do.
  bool all_apart_from(const Interval& wanted) const { return last_ < wanted.first || first_ > wanted.last; }
  bool all_live_with(const Interval& wanted) const { return least_last_ >= wanted.first && most_first_ <= wanted.last; }
  const std::vector<Interval>& intervals() const { return intervals_; }
  std::int64_t end() const { return end_; }
  std::int64_t largest_gap() const { return largest_gap_; }  // between them, if all live at the same time

 private:
  void describe() {
    first_ = most_first_ = intervals_.front().first;
    last_ = least_last_ = intervals_.front().last;
    end_ = offset();
    largest_gap_ = 0;
    for (const Interval& interval : intervals_) {
      first_ = std::min(first_, interval.first), most_first_ = std::max(most_first_, interval.first);
      last_ = std::max(last_, interval.last), least_last_ = std::min(least_last_, interval.last);
      largest_gap_ = std::max(largest_gap_, interval.offset - end_);
      end_ = std::max(end_, interval.offset + interval.bytes);
    }
  }

  std::vector<Interval> intervals_;
  int first_ = 0, most_first_ = 0, last_ = 0, least_last_ = 0;
  std::int64_t end_ = 0, largest_gap_ = 0;
};

// All intervals that have an offset. What takes turns in the same memory stands side by side, and what lives long next
// to each other does: most blocks are passed over, or count as one.
class PlacedIntervals {
 public:
  // Where the tightest gap is between those that live at the same time, the first of equals; behind all if there is
  // none.
  std::int64_t best_offset(const Interval& wanted) const {
    std::int64_t end = 0, best = -1, best_gap = std::numeric_limits<std::int64_t>::max();
    const auto look = [&](std::int64_t offset, std::int64_t next_end) {
      const std::int64_t gap = offset - end;
      if (gap >= wanted.bytes && gap < best_gap) best = end, best_gap = gap;
      end = std::max(end, next_end);
      return gap == wanted.bytes;
    };
    for (const Block& block : blocks_) {
      if (block.all_apart_from(wanted)) continue;
      if (block.all_live_with(wanted) && end <= block.offset() && block.largest_gap() < wanted.bytes) {
        if (look(block.offset(), block.end())) return best;
        continue;
      }
      for (const Interval& other : block.intervals()) {
        if (other.last < wanted.first || other.first > wanted.last) continue;
        if (look(other.offset, other.offset + other.bytes)) return best;
      }
    }
    return best >= 0 ? best : end;
  }

  void insert(const Interval& interval) {
    if (blocks_.empty()) blocks_.emplace_back();
    const auto after = std::upper_bound(blocks_.begin() + 1, blocks_.end(), interval,
                                        [](const Interval& a, const Block& b) { return a.offset < b.offset(); });
    const auto index = std::prev(after) - blocks_.begin();
    blocks_[static_cast<std::size_t>(index)].add(interval);
    if (blocks_[static_cast<std::size_t>(index)].size() <= most) return;
    Block half = blocks_[static_cast<std::size_t>(index)].take_half();
    blocks_.insert(blocks_.begin() + index + 1, std::move(half));
  }

 private:
  static constexpr std::size_t most = 64;  // of a block
  std::vector<Block> blocks_;
};

}  // namespace

std::int64_t pack(std::vector<Interval>& intervals) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (intervals[a].bytes != intervals[b].bytes) return intervals[a].bytes > intervals[b].bytes;
    return intervals[a].last - intervals[a].first > intervals[b].last - intervals[b].first;
  });
  PlacedIntervals placed;
  std::int64_t total = 0;
  for (std::size_t index : order) {
    Interval& interval = intervals[index];
    interval.bytes = (interval.bytes + 63) / 64 * 64;
    interval.offset = placed.best_offset(interval);
    total = std::max(total, interval.offset + interval.bytes);
    placed.insert(interval);
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
