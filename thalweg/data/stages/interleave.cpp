// interleave: datasets made from elements, a few open at a time, read in turn.
#include "thalweg/core/check.h"
#include "thalweg/data/node.h"
#include "thalweg/data/user_call.h"

namespace thalweg::data {
namespace {

class InterleaveCursor final : public Whole {
 public:
  InterleaveCursor(CursorPtr input, const Dataset::Expand& f, const InterleaveOptions& options, int number,
                   StageCounters& counters)
      : input_(std::move(input)),
        f_(f),
        options_(options),
        stage_(stage_number(0x696e74, number)),
        branch_{in_branch(stage_), random::in_call(stage_, branch().lasting)},
        counters_(counters) {}
  void start(std::int64_t epoch) override {
    begin(epoch);
    input_->start(epoch);
  }
  void save(StateWriter& state) const override;
  void restore(std::int64_t epoch, StateReader& state) override;

 protected:
  std::optional<Element> make() override;

 private:
  // An open dataset, and the number of the element that it was made from.
  struct Open {
    std::int64_t number;
    NodePtr node;
    std::unique_ptr<Counters> counters;
    CursorPtr cursor;
  };

  void begin(std::int64_t epoch) {
    epoch_ = epoch;
    pulled_ = turn_ = in_block_ = 0;
    ended_ = false;
    slots_.clear();
    slots_.resize(static_cast<std::size_t>(options_.cycle));
  }
  Open open(std::int64_t number, const Element& element) const;
  std::optional<Element> take(std::optional<Open>& slot);
  void next_turn() {
    in_block_ = 0;
    turn_ = (turn_ + 1) % options_.cycle;
  }

  CursorPtr input_;
  const Dataset::Expand& f_;
  const InterleaveOptions options_;
  const std::uint64_t stage_;
  const Branch branch_;  // numbers the random ops of its calls, and those of the datasets that they make
  StageCounters& counters_;
  std::vector<std::optional<Open>> slots_;
  std::int64_t epoch_ = 0, pulled_ = 0, turn_ = 0, in_block_ = 0;
  bool ended_ = false;
};

InterleaveCursor::Open InterleaveCursor::open(std::int64_t number, const Element& element) const {
  const std::uint64_t call = random::in_call(random::in_call(branch_.number, static_cast<std::uint64_t>(epoch_)),
                                             static_cast<std::uint64_t>(number));
  const Dataset dataset = call_user("interleave", call, number, [&] { return f_(element); });
  Open made{number, dataset.node(), std::make_unique<Counters>(), nullptr};
  const BranchScope scope(
      {random::in_call(random::in_call(branch_.number, 0x6f70), static_cast<std::uint64_t>(number)), branch_.lasting});
  made.cursor = open_whole(*made.node, *made.counters);
  return made;
}

// The next element of the slot's dataset, which is opened if need be; nothing: its turn is over.
std::optional<Element> InterleaveCursor::take(std::optional<Open>& slot) {
  if (!slot) {
    if (ended_) return {};
    const std::int64_t number = pulled_++;  // counted also if the input throws
    const std::optional<Element> element = input_->next();
    if (!element) {
      --pulled_;
      ended_ = true;
      return {};
    }
    Open made = open(number, *element);
    made.cursor->start(epoch_);  // should it throw: the next element takes its place
    slot = std::move(made);
  }
  std::optional<Element> element = slot->cursor->next();
  if (!element) slot.reset();
  return element;
}

std::optional<Element> InterleaveCursor::make() {
  for (std::int64_t idle = 0; !ended_ || idle < options_.cycle;) {
    auto& slot = slots_[static_cast<std::size_t>(turn_)];
    std::optional<Element> element = take(slot);
    if (element) {
      counters_.count();
      if (++in_block_ == options_.block) next_turn();
      return element;
    }
    idle = ended_ ? idle + 1 : 0;
    next_turn();
  }
  return {};
}

void InterleaveCursor::save(StateWriter& state) const {
  state.put(pulled_);
  state.put(turn_);
  state.put(in_block_);
  for (const auto& slot : slots_) {
    state.put(slot ? slot->number + 1 : 0);
    if (slot) slot->cursor->save(state);
  }
}

// The elements of the input are drawn again; the datasets that were open go on where they stood.
void InterleaveCursor::restore(std::int64_t epoch, StateReader& state) {
  begin(epoch);
  input_->start(epoch);
  const std::int64_t pulled = state.take("the inputs of interleave");
  turn_ = state.take("the turn of interleave", options_.cycle - 1);
  in_block_ = state.take("the place in the block", options_.block - 1);
  std::vector<Element> elements;
  while (pulled_ < pulled) {
    const std::int64_t number = pulled_++;
    elements.emplace_back();
    std::optional<Element> element;
    try {
      element = input_->next();
    } catch (const std::exception&) {
      continue;  // thrown when it was due
    }
    TW_CHECK_USER(element.has_value(), "restore", "the data must be those of the saved state",
                  "the data end at element {}", number);
    elements.back() = std::move(*element);
  }
  for (auto& slot : slots_) {
    const std::int64_t number = state.take("an input of interleave", pulled) - 1;
    if (number < 0) continue;
    slot = open(number, elements[static_cast<std::size_t>(number)]);
    slot->cursor->restore(epoch, state);
  }
}

class InterleaveNode final : public Node {
 public:
  InterleaveNode(const NodePtr& input, Dataset::Expand f, const InterleaveOptions& options)
      : InterleaveNode(input, std::move(f), options, stages_until(*input, "interleave")) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<InterleaveCursor>(open_whole(input(), counters), f_, options_, number_, counters.of(*this));
  }
  std::int64_t cardinality() const override { return unknown; }

 private:
  InterleaveNode(const NodePtr& input, Dataset::Expand f, const InterleaveOptions& options, int number)
      : Node("interleave", fmt::format("{} {} apart{}", options.cycle, options.block, settings_of_stage(number)),
             {input}),
        f_(std::move(f)),
        options_(options),
        number_(number) {}
  Dataset::Expand f_;
  InterleaveOptions options_;
  int number_;
};

}  // namespace

Dataset Dataset::interleave(Expand f, const InterleaveOptions& options) const {
  TW_CHECK_USER(options.cycle >= 1 && options.cycle <= 4096 && options.block >= 1, "interleave",
                "cycle is how many are open, block how many elements one gives in its turn",
                "expected at least 1 for both, got a cycle of {} and a block of {}", options.cycle, options.block);
  return Dataset(std::make_shared<InterleaveNode>(node_, std::move(f), options));
}

}  // namespace thalweg::data
