#include "thalweg/data/iterator.h"

#include "thalweg/core/check.h"
#include "thalweg/data/shared.h"

namespace thalweg::data {
namespace {

constexpr std::int64_t state_version = 1;

// Adds the time of a call of next to the statistics.
class NextTime {
 public:
  explicit NextTime(IteratorCore& core) : core_(core), begin_(now_ns()) {}
  ~NextTime() {
    const std::int64_t end = now_ns();
    auto& counters = core_.shared->counters;
    counters.wait_ns += end - begin_;
    counters.total_ns += end - (core_.last_ns > 0 ? core_.last_ns : begin_);
    core_.last_ns = end;
  }
  NextTime(const NextTime&) = delete;

 private:
  IteratorCore& core_;
  std::int64_t begin_;
};

}  // namespace

IteratorCore::IteratorCore(NodePtr node_, std::shared_ptr<Shared> shared_, std::int64_t epoch_)
    : node(std::move(node_)), shared(std::move(shared_)), cursor(open_whole(*node, shared->counters)) {
  start(epoch_);
}

void IteratorCore::start(std::int64_t number) {
  epoch = number;
  ended = true;  // should it throw: there is no such epoch
  cursor->start(epoch);
  ended = false;
}

std::optional<Element> IteratorCore::next() {
  if (ended) return {};
  const NextTime time(*this);
  std::optional<Element> element = cursor->next();
  ended = !element;
  if (element) ++shared->counters.elements;
  return element;
}

State IteratorCore::save() const {
  State state{{state_version, static_cast<std::int64_t>(node->fingerprint()), epoch}};
  StateWriter writer(state.integers);
  cursor->save(writer);
  return state;
}

StateReader IteratorCore::checked(const State& state) const {
  constexpr auto hint =
      "make the pipeline with the stages and settings it had when the state was saved; before version 0.15 branches of "
      "zip, concatenate and interleave drew the same random numbers, and up to it maps behind each other, in different "
      "epochs, so that such states do not fit";
  StateReader reader(state.integers);
  TW_CHECK_USER(reader.take_any() == state_version, "restore", "save a state with this version of the library",
                "the state has another format than {}", state_version);
  TW_CHECK_USER(reader.take_any() == static_cast<std::int64_t>(node->fingerprint()), "restore", hint,
                "the state was saved by another pipeline than this, which ends in {}", node->name());
  return reader;
}

void IteratorCore::restore(const State& state) {
  StateReader reader = checked(state);
  const std::int64_t number = reader.take("the epoch");
  last_ns = 0;
  try {
    cursor->restore(number, reader);
    reader.finish();
    epoch = number;
    ended = false;
  } catch (...) {
    start(epoch);
    throw;
  }
}

Iterator::Iterator(std::unique_ptr<IteratorCore> core) : core_(std::move(core)) {}
Iterator::Iterator(Iterator&&) noexcept = default;
Iterator& Iterator::operator=(Iterator&&) noexcept = default;
Iterator::~Iterator() = default;

std::optional<Element> Iterator::next() { return core_->next(); }
std::int64_t Iterator::epoch() const { return core_->epoch; }
void Iterator::next_epoch() { core_->start(core_->epoch + 1); }
State Iterator::save_state() const { return core_->save(); }
void Iterator::restore(const State& state) { core_->restore(state); }
void Iterator::check_state(const State& state) const { core_->checked(state); }

}  // namespace thalweg::data
