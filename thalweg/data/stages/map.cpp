// map: a function of the user over every element.
#include "thalweg/core/check.h"
#include "thalweg/data/node.h"
#include "thalweg/data/user_call.h"

namespace thalweg::data {
namespace {

using Map = Dataset::Map;

Element mapped(const Map& f, std::uint64_t call, std::int64_t index, const Element& element) {
  Element result = call_user("map", call, index, [&] { return f(element); });
  for (const auto& part : result)
    TW_CHECK_USER(part.defined(), "map", "return a tensor for every part",
                  "the function gave an undefined tensor for element {}", index);
  return result;
}

// What numbers the random ops of a call: the map and its branch, the epoch, the element.
struct Calls {
  std::uint64_t stage, epoch = 0;
  explicit Calls(int number) : stage(in_branch(stage_number(1, number))) {}
  void start(std::int64_t number) { epoch = random::in_call(stage, static_cast<std::uint64_t>(number)); }
  std::uint64_t at(std::int64_t index) const { return random::in_call(epoch, static_cast<std::uint64_t>(index)); }
};

// Calls are part of the making: several at a time.
class ParallelMap final : public Counting {
 public:
  ParallelMap(CursorPtr input, const Map& f, int number, StageCounters& counters)
      : Counting(std::move(input), counters, "the element of map"), f_(f), calls_(number) {}
  void start(std::int64_t epoch) override {
    Counting::start(epoch);
    calls_.start(epoch);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    calls_.start(epoch);
    Counting::restore(epoch, state);
  }
  bool pull(Job& job) override {
    const std::int64_t index = position();
    if (!draw(job)) return false;
    job.numbers.push_back(static_cast<std::int64_t>(calls_.at(index)));
    job.numbers.push_back(index);
    return true;
  }
  Element run(JobReader& job) const override {
    const Element element = input_->run(job);
    const auto call = static_cast<std::uint64_t>(job.number());
    const std::int64_t index = job.number();
    const BusyTime busy(counters_, index);
    return mapped(f_, call, index, element);
  }

 private:
  const Map& f_;
  Calls calls_;
};

// One call after the other, in order. Threads of the input work ahead of it, until elements are asked for by number.
class SerialMap final : public Whole {
 public:
  SerialMap(const Node& input, Counters& counters, const Map& f, int number, StageCounters& own)
      : node_(input),
        all_(counters),
        branch_(branch()),
        input_(open_whole(input, counters)),
        f_(f),
        calls_(number),
        counters_(own) {}
  void start(std::int64_t epoch) override {
    epoch_ = epoch;
    input_->start(epoch);
    calls_.start(epoch);
    position_ = 0;
  }
  void save(StateWriter& state) const override {
    state.put(position_);
    input_->save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    epoch_ = epoch;
    calls_.start(epoch);
    position_ = state.take("the element of map");
    input_->restore(epoch, state);
  }
  void seek(std::int64_t position) override {
    if (node_.workers() != 0 && !direct_) {
      const BranchScope again(branch_);
      input_ = open_drawn(node_, all_);
      input_->start(epoch_);
      direct_ = true;
    }
    position_ = position;
    input_->seek(position);
  }

 protected:
  std::optional<Element> make() override {
    const std::int64_t index = position_++;  // counted also if the input throws
    const std::optional<Element> element = input_->next();
    if (!element) {
      --position_;
      return {};
    }
    counters_.count();
    const BusyTime busy(counters_, index);
    return mapped(f_, calls_.at(index), index, *element);
  }
  // The function is not called, nor is it where calls are part of the making.
  bool drop() override {
    ++position_;
    if (input_->skip_one()) {
      counters_.count();
      return true;
    }
    --position_;
    return false;
  }

 private:
  const Node& node_;
  Counters& all_;
  const Branch branch_;
  CursorPtr input_;
  const Map& f_;
  Calls calls_;
  StageCounters& counters_;
  std::int64_t epoch_ = 0, position_ = 0;
  bool direct_ = false;  // without threads ahead
};

class MapNode final : public Node {
 public:
  MapNode(const NodePtr& input, Map f, int parallel)
      : MapNode(input, std::move(f), parallel, stages_until(*input, "map")) {}
  CursorPtr open(Counters& counters) const override {
    auto& own = counters.of(*this);
    if (in_job()) return std::make_unique<ParallelMap>(open_drawn(input(), counters), f_, number_, own);
    return std::make_unique<SerialMap>(input(), counters, f_, number_, own);
  }
  std::int64_t cardinality() const override { return input().cardinality(); }
  bool seekable() const override { return input().seekable(); }  // whatever the threads: shuffles ask for it
  int workers() const override {
    if (!in_job()) return 0;
    const int others = input().workers();
    return parallel_ == autotune || others == autotune ? autotune : std::max(parallel_, others);
  }

 private:
  MapNode(const NodePtr& input, Map f, int parallel, int number)
      : Node("map", settings_of_stage(number), {input}), f_(std::move(f)), parallel_(parallel), number_(number) {}
  bool in_job() const { return parallel_ == autotune || parallel_ > 1; }
  Map f_;
  int parallel_, number_;
};

}  // namespace

Dataset Dataset::map_elements(Map f, const MapOptions& options) const {
  TW_CHECK_USER(options.parallel >= autotune && options.parallel <= 1024, "map", "pass tw::data::autotune",
                "expected .parallel from 0 to 1024, got {}", options.parallel);
  return Dataset(std::make_shared<MapNode>(node_, std::move(f), options.parallel));
}

}  // namespace thalweg::data
