#include <algorithm>
#include <limits>

#include "thalweg/core/check.h"
#include "thalweg/data/node.h"

namespace thalweg::data {
namespace {

// Each round is an epoch of the input: shuffles in front draw a new order.
class RepeatCursor final : public Over {
 public:
  RepeatCursor(CursorPtr input, std::int64_t count, StageCounters& counters)
      : Over(std::move(input)), count_(count), counters_(counters) {}
  void start(std::int64_t epoch) override {
    epoch_ = epoch;
    round_ = 0;
    in_round_ = 0;
    Over::start(input_epoch());
  }
  bool pull(Job& job) override {
    while (count_ < 0 || round_ < count_) {
      const bool anything = in_round_ > 0;
      ++in_round_;
      if (input_->pull(job)) {
        counters_.count();
        return true;
      }
      in_round_ = 0;
      if (!anything) return false;  // nothing to repeat, also for who goes on from a state
      ++round_;
      if (count_ >= 0 && round_ >= count_) break;
      Over::start(input_epoch());
    }
    return false;
  }
  void save(StateWriter& state) const override {
    state.put(round_);
    state.put(in_round_);
    Over::save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    epoch_ = epoch;
    round_ = state.take("the round of repeat");
    in_round_ = state.take("the element of the round");
    Over::restore(input_epoch(), state);
  }

 private:
  // Rounds of a later epoch of the whole follow those of the earlier ones. At the end the input stands in the last one.
  std::int64_t input_epoch() const {
    if (count_ < 0) return (epoch_ << 32) + round_;
    return epoch_ * count_ + std::min(round_, std::max<std::int64_t>(count_ - 1, 0));
  }

  const std::int64_t count_;
  StageCounters& counters_;
  std::int64_t epoch_ = 0, round_ = 0, in_round_ = 0;
};

class RepeatNode final : public LazyNode {
 public:
  RepeatNode(NodePtr input, std::int64_t count)
      : LazyNode("repeat", std::to_string(count), {std::move(input)}), count_(count) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<RepeatCursor>(input().open(counters), count_, counters.of(*this));
  }
  std::int64_t cardinality() const override {
    const std::int64_t one = input().cardinality();
    if (one == 0 || count_ == 0) return 0;
    if (count_ < 0 || one == infinite) return infinite;
    if (one == unknown || one > std::numeric_limits<std::int64_t>::max() / count_) return unknown;
    return one * count_;
  }
  bool seekable() const override { return false; }

 private:
  std::int64_t count_;
};

}  // namespace

Dataset Dataset::repeat(std::int64_t count) const {
  TW_CHECK_USER(count >= -1 && count <= 1'000'000'000, "repeat", "without a count it repeats for ever",
                "expected a number of rounds up to 1e9, got {}", count);
  return Dataset(std::make_shared<RepeatNode>(node_, count));
}

}  // namespace thalweg::data
