#include "thalweg/data/node.h"
#include "thalweg/data/user_call.h"

namespace thalweg::data {
namespace {

class FilterCursor final : public Whole {
 public:
  FilterCursor(CursorPtr input, const Dataset::Predicate& predicate, int number, StageCounters& counters)
      : input_(std::move(input)),
        predicate_(predicate),
        stage_(in_branch(stage_number(0x66696c, number))),
        counters_(counters) {}
  void start(std::int64_t epoch) override {
    epoch_ = epoch;
    position_ = 0;
    input_->start(epoch);
  }
  void save(StateWriter& state) const override {
    state.put(position_);
    input_->save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    epoch_ = epoch;
    position_ = state.take("the element of filter");
    input_->restore(epoch, state);
  }

 protected:
  std::optional<Element> make() override {
    for (;;) {
      const std::int64_t index = position_++;  // counted also if the input throws
      std::optional<Element> element = input_->next();
      if (!element) {
        --position_;
        return {};
      }
      const BusyTime busy(counters_, index);
      const std::uint64_t call = random::in_call(random::in_call(stage_, static_cast<std::uint64_t>(epoch_)),
                                                 static_cast<std::uint64_t>(index));
      if (call_user("filter", call, index, [&] { return predicate_(*element); })) {
        counters_.count();
        return element;
      }
    }
  }

 private:
  CursorPtr input_;
  const Dataset::Predicate& predicate_;
  const std::uint64_t stage_;  // numbers the random ops of its calls, with epoch and element
  StageCounters& counters_;
  std::int64_t epoch_ = 0, position_ = 0;
};

class FilterNode final : public Node {
 public:
  FilterNode(const NodePtr& input, Dataset::Predicate predicate)
      : FilterNode(input, std::move(predicate), stages_until(*input, "filter")) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<FilterCursor>(open_whole(input(), counters), predicate_, number_, counters.of(*this));
  }
  std::int64_t cardinality() const override { return input().cardinality() == infinite ? infinite : unknown; }

 private:
  FilterNode(const NodePtr& input, Dataset::Predicate predicate, int number)
      : Node("filter", settings_of_stage(number), {input}), predicate_(std::move(predicate)), number_(number) {}
  Dataset::Predicate predicate_;
  int number_;
};

}  // namespace

Dataset Dataset::filter_elements(Predicate f) const {
  return Dataset(std::make_shared<FilterNode>(node_, std::move(f)));
}

}  // namespace thalweg::data
