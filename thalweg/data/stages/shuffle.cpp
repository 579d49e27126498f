// shuffle: as a computed permutation where the whole set fits the buffer and elements can be reached by number;
// otherwise a buffer of jobs, from which one after the other is drawn at random and replaced by the next of the input.
#include <algorithm>
#include <deque>
#include <exception>
#include <numeric>
#include <unordered_map>

#include "thalweg/core/check.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/data/node.h"
#include "thalweg/data/permutation.h"
#include "thalweg/ops/random/key.h"

namespace thalweg::data {
namespace {

struct Order {
  std::uint64_t seed = 0;
  bool reshuffle = true;
  random::Key at(std::int64_t epoch) const { return {seed, reshuffle ? static_cast<std::uint64_t>(epoch) : 0}; }
};

class PermutedCursor final : public Over {
 public:
  PermutedCursor(CursorPtr input, std::int64_t size, const Order& order, StageCounters& counters)
      : Over(std::move(input)), size_(size), order_(order), permutation_(size, order.at(0)), counters_(counters) {}
  void start(std::int64_t epoch) override {
    Over::start(epoch);
    permutation_ = Permutation(size_, order_.at(epoch));
    position_ = 0;
  }
  bool pull(Job& job) override {
    if (position_ >= size_) return false;
    input_->seek(permutation_(position_++));
    counters_.count();
    return input_->pull(job);
  }
  void save(StateWriter& state) const override { state.put(position_); }
  void restore(std::int64_t epoch, StateReader& state) override {
    const std::int64_t position = state.take("the element of shuffle", size_);
    start(epoch);
    position_ = position;
  }
  void seek(std::int64_t position) override { position_ = std::min(position, size_); }  // behind the last: the end

 private:
  std::int64_t size_, position_ = 0;
  Order order_;
  Permutation permutation_;
  StageCounters& counters_;
};

// Which of `size` jobs is drawn at step `step`: a function of nothing else, so that a state needs no buffer.
std::size_t draw(const random::Key& key, std::int64_t step, std::size_t size) {
  return static_cast<std::size_t>(random::below(size, random::words(key, static_cast<std::uint64_t>(step))));
}

class BufferCursor final : public Over {
 public:
  BufferCursor(CursorPtr input, std::int64_t buffer, const Order& order, StageCounters& counters)
      : Over(std::move(input)), most_(static_cast<std::size_t>(buffer)), order_(order), counters_(counters) {
    counters_.capacity = buffer;
  }
  void start(std::int64_t epoch) override {
    begin(epoch);
    Over::start(epoch);
  }
  bool pull(Job& job) override;
  void save(StateWriter& state) const override;
  void restore(std::int64_t epoch, StateReader& state) override;

 private:
  struct Entry {
    Job job;
    std::int64_t position = 0;
    std::exception_ptr error = {};  // an element that failed has its place in the order too
  };
  // The input's state in front of an element that may still be in the buffer.
  struct Snapshot {
    std::int64_t position;
    std::vector<std::int64_t> integers;
  };

  void begin(std::int64_t epoch);
  bool fetch(Entry& entry);
  void fill();
  void remember_state();
  std::int64_t oldest() const;
  std::vector<std::int64_t> positions_after(std::int64_t steps, std::int64_t pulled) const;

  std::size_t most_;
  Order order_;
  StageCounters& counters_;
  random::Key key_;
  std::vector<Entry> entries_;
  std::deque<Snapshot> snapshots_;
  std::int64_t steps_ = 0, pulled_ = 0, next_snapshot_ = 0;
  std::int64_t needed_ = 0;  // nothing older is in the buffer; found anew with each snapshot, since it takes a while
  bool ended_ = false;
};

void BufferCursor::begin(std::int64_t epoch) {
  key_ = order_.at(epoch);
  entries_.clear();
  snapshots_.clear();
  steps_ = pulled_ = next_snapshot_ = needed_ = 0;
  ended_ = false;
}

std::int64_t BufferCursor::oldest() const {
  std::int64_t position = pulled_;
  for (const auto& entry : entries_) position = std::min(position, entry.position);
  return position;
}

void BufferCursor::remember_state() {
  Snapshot now{pulled_, {}};
  StateWriter writer(now.integers);
  input_->save(writer);
  needed_ = oldest();
  while (snapshots_.size() > 1 && snapshots_[1].position <= needed_) snapshots_.pop_front();
  snapshots_.push_back(std::move(now));
  next_snapshot_ = pulled_ + std::max<std::int64_t>(static_cast<std::int64_t>(most_), 64);
}

bool BufferCursor::fetch(Entry& entry) {
  if (ended_) return false;
  if (pulled_ == next_snapshot_) remember_state();
  entry.job.clear();
  entry.position = pulled_;
  try {
    ended_ = !input_->pull(entry.job);
  } catch (...) {
    entry.error = std::current_exception();
  }
  if (!ended_) ++pulled_;
  return !ended_;
}

void BufferCursor::fill() {
  while (!ended_ && entries_.size() < most_) {
    Entry entry;
    if (fetch(entry)) entries_.push_back(std::move(entry));
  }
}

bool BufferCursor::pull(Job& job) {
  fill();
  if (entries_.empty()) return false;
  Entry& drawn = entries_[draw(key_, steps_++, entries_.size())];
  job.append(drawn.job);
  const std::exception_ptr error = std::exchange(drawn.error, nullptr);
  if (!fetch(drawn)) {
    std::swap(drawn, entries_.back());
    entries_.pop_back();
  }
  counters_.count();
  counters_.buffered = static_cast<std::int64_t>(entries_.size());
  if (error) std::rethrow_exception(error);
  return true;
}

void BufferCursor::save(StateWriter& state) const {
  state.put(steps_);
  state.put(pulled_);
  if (snapshots_.empty()) {
    state.put(0);
    return Over::save(state);
  }
  const auto behind = std::find_if(snapshots_.begin() + 1, snapshots_.end(),
                                   [&](const Snapshot& snapshot) { return snapshot.position > needed_; });
  const Snapshot& last = *std::prev(behind);
  state.put(last.position);
  state.put(last.integers);
}

// The numbers of the elements in the buffer after that many draws, slot by slot.
std::vector<std::int64_t> BufferCursor::positions_after(std::int64_t steps, std::int64_t pulled) const {
  std::vector<std::int64_t> positions(std::min(most_, static_cast<std::size_t>(pulled)));
  std::iota(positions.begin(), positions.end(), 0);
  auto next = static_cast<std::int64_t>(positions.size());
  for (std::int64_t step = 0; step < steps; ++step) {
    std::int64_t& drawn = positions[draw(key_, step, positions.size())];
    if (next < pulled) {
      drawn = next++;
    } else {
      drawn = positions.back();
      positions.pop_back();
    }
  }
  return positions;
}

void BufferCursor::restore(std::int64_t epoch, StateReader& state) {
  begin(epoch);
  steps_ = state.take("the draws of shuffle");
  const std::int64_t pulled = state.take("the elements read by shuffle");
  TW_CHECK_USER(steps_ <= pulled, "restore", "the state is damaged", "shuffle drew {} of {} elements", steps_, pulled);
  pulled_ = state.take("the element that shuffle goes back to", pulled);
  Over::restore(epoch, state);
  const auto positions = positions_after(steps_, pulled);
  std::unordered_map<std::int64_t, std::size_t> slots;
  for (std::size_t i = 0; i < positions.size(); ++i) slots[positions[i]] = i;
  if (pulled == 0) return;
  entries_.resize(positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) entries_[i].position = positions[i];  // snapshots look at them
  remember_state();
  while (pulled_ < pulled) {
    Entry entry;
    TW_CHECK_USER(fetch(entry), "restore", "the data must be those of the saved state", "the data end at element {}",
                  pulled_);
    if (const auto slot = slots.find(entry.position); slot != slots.end()) entries_[slot->second] = std::move(entry);
  }
}

class ShuffleNode final : public LazyNode {
 public:
  ShuffleNode(NodePtr input, std::int64_t buffer, const Order& order)
      : LazyNode("shuffle", fmt::format("{} {} {}", buffer, order.seed, order.reshuffle), {std::move(input)}),
        buffer_(buffer),
        order_(order) {}
  CursorPtr open(Counters& counters) const override {
    auto& own = counters.of(*this);
    if (seekable()) return std::make_unique<PermutedCursor>(input().open(counters), cardinality(), order_, own);
    return std::make_unique<BufferCursor>(input().open(counters), buffer_, order_, own);
  }
  std::int64_t cardinality() const override { return input().cardinality(); }
  bool seekable() const override { return input().seekable() && input().cardinality() <= buffer_; }

 private:
  std::int64_t buffer_;
  Order order_;
};

}  // namespace

Dataset Dataset::shuffle(std::int64_t buffer, const ShuffleOptions& options) const {
  TW_CHECK_USER(buffer >= 1, "shuffle", "pass the number of elements to choose from",
                "expected a buffer of at least 1 element, got {}", buffer);
  const auto number = static_cast<std::uint64_t>(stages_until(*node_, "shuffle"));
  const std::uint64_t seed = options.seed ? *options.seed : random::in_call(random::global_seed(), number);
  return Dataset(std::make_shared<ShuffleNode>(node_, buffer, Order{seed, options.reshuffle}));
}

}  // namespace thalweg::data
