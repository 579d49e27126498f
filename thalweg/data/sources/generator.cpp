// Elements made by functions of the user.
#include "thalweg/core/check.h"
#include "thalweg/data/node.h"
#include "thalweg/data/sources.h"
#include "thalweg/data/user_call.h"

namespace thalweg::data {
namespace {

using ByIndex = std::function<std::optional<Element>(std::int64_t)>;

std::uint64_t call_number(std::uint64_t stage, std::int64_t epoch, std::int64_t index) {
  return random::in_call(random::in_call(stage, static_cast<std::uint64_t>(epoch)), static_cast<std::uint64_t>(index));
}

void check_element(const std::optional<Element>& element, std::int64_t index) {
  if (!element) return;
  for (const auto& part : *element)
    TW_CHECK_USER(part.defined(), "from_generator", "give every part a value", "element {} has an undefined part",
                  index);
}

// A function of the number of the element: any position can be reached at once.
class IndexCursor final : public Whole {
 public:
  IndexCursor(const ByIndex& element, StageCounters& counters) : element_(element), counters_(counters) {}
  void start(std::int64_t epoch) override {
    epoch_ = epoch;
    position_ = 0;
  }
  void save(StateWriter& state) const override { state.put(position_); }
  void restore(std::int64_t epoch, StateReader& state) override {
    epoch_ = epoch;
    position_ = state.take("the element");
  }

 protected:
  std::optional<Element> make() override {
    const std::int64_t index = position_++;
    const BusyTime busy(counters_, index);
    auto element =
        call_user("from_generator", call_number(stage_, epoch_, index), index, [&] { return element_(index); });
    check_element(element, index);
    if (element)
      counters_.count();
    else
      --position_;
    return element;
  }

 private:
  const std::uint64_t stage_ = in_branch(0x67656e);
  const ByIndex& element_;
  StageCounters& counters_;
  std::int64_t epoch_ = 0, position_ = 0;
};

constexpr const char* ends_here =
    "the epoch ends here: what threw is not asked for another element; catch the exception inside of it, or let a "
    "function of the element's number, f(index), take its place";

// Added to the position in states of generators that ended or threw, which are not asked again.
constexpr std::int64_t behind_the_end = std::int64_t{1} << 61;

// A generator can only be asked for the next element: a state is reached by asking that often.
class GeneratorCursor final : public Whole {
 public:
  GeneratorCursor(const std::function<Generator()>& begin, StageCounters& counters)
      : begin_(begin), counters_(counters) {}
  void start(std::int64_t epoch) override {
    epoch_ = epoch;
    position_ = 0;
    ended_ = true;  // should it throw: the generator of the epoch before is not asked again
    generator_ = call_user("from_generator", call_number(stage_, epoch_, -1), 0, begin_, ends_here);
    ended_ = false;
  }
  void save(StateWriter& state) const override { state.put(ended_ ? position_ + behind_the_end : position_); }
  void restore(std::int64_t epoch, StateReader& state) override {
    const std::int64_t position = state.take("the element");
    start(epoch);
    if (position >= behind_the_end) {
      ended_ = true;
      position_ = position - behind_the_end;
    }
    while (position_ < position && make()) {
    }
  }

 protected:
  std::optional<Element> make() override {
    if (ended_) return {};
    ended_ = true;  // should it throw: nothing is known of a generator that did
    const BusyTime busy(counters_, position_);
    auto element =
        call_user("from_generator", call_number(stage_, epoch_, position_), position_, generator_, ends_here);
    check_element(element, position_);
    if (element) ended_ = false, ++position_, counters_.count();
    return element;
  }

 private:
  const std::uint64_t stage_ = in_branch(0x67656e);
  const std::function<Generator()>& begin_;
  StageCounters& counters_;
  Generator generator_;
  std::int64_t epoch_ = 0, position_ = 0;
  bool ended_ = false;
};

template <class Cursor, class F>
class GeneratorNode final : public Node {
 public:
  explicit GeneratorNode(F f) : Node("generator", "", {}), f_(std::move(f)) {}
  CursorPtr open(Counters& counters) const override { return std::make_unique<Cursor>(f_, counters.of(*this)); }
  std::int64_t cardinality() const override { return unknown; }

 private:
  F f_;
};

}  // namespace

Dataset from_generators(std::function<Generator()> start) {
  return Dataset(std::make_shared<GeneratorNode<GeneratorCursor, std::function<Generator()>>>(std::move(start)));
}

Dataset from_indices(ByIndex element) {
  return Dataset(std::make_shared<GeneratorNode<IndexCursor, ByIndex>>(std::move(element)));
}

}  // namespace thalweg::data
