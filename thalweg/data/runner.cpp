#include "thalweg/data/runner.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/serial.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::data {
namespace {

constexpr std::size_t most_slots = 64, largest_chunk = 32;
constexpr std::int64_t chunk_ns = 50'000;           // that a chunk should take; a hand-over takes about 5 us
constexpr std::int64_t largest_ahead = 64 << 20;    // bytes ready, while the buffer is tuned
constexpr std::int64_t positions_per_snapshot = 8;  // elements to draw again at most after a restore

// Restores the input as it was some elements ago, and draws those again without making them.
void restore_input(Cursor& input, std::int64_t epoch, StateReader& state) {
  const std::int64_t again = state.take("the number of elements drawn since", 1 << 20);
  input.restore(epoch, state);
  replay(input, again);
}

// Hands on jobs and is never ahead; its states are those of a runner.
class Direct final : public Over {
 public:
  using Over::Over;
  bool pull(Job& job) override { return input_->pull(job); }
  void save(StateWriter& state) const override {
    state.put(0);
    Over::save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override { restore_input(*input_, epoch, state); }
};

}  // namespace

CursorPtr open_drawn(const Node& node, Counters& counters) {
  CursorPtr cursor = node.open(counters);
  return node.buffered() ? std::move(cursor) : std::make_unique<Direct>(std::move(cursor));
}

CursorPtr open_whole(const Node& node, Counters& counters) {
  if (node.buffered() || node.workers() == 0) return open_drawn(node, counters);
  CursorPtr cursor = node.open(counters);
  return std::make_unique<Runner>(std::move(cursor), node.workers(), autotune, counters.of(node), false);
}

Runner::Runner(CursorPtr input, int workers, int buffer, StageCounters& counters, bool counts)
    : input_(std::move(input)),
      most_workers_(workers == autotune ? available_cores() : std::max(workers, 1)),
      buffer_(buffer),
      tunes_workers_(workers == autotune),
      counters_(counters),
      counts_(counts),
      slots_(most_slots) {}

Runner::~Runner() { stop(); }

void Runner::reset() {
  stop();
  for (auto& slot : slots_) slot.items.clear(), slot.count = slot.read = 0, slot.ready = false;
  snapshots_.clear();
  drawn_slots_ = taken_slots_ = drawn_ = released_ = delivered_ = 0;
  ended_ = false;
  reading_ = nullptr;
}

void Runner::start(std::int64_t epoch) {
  reset();
  input_->start(epoch);
}

void Runner::restore(std::int64_t epoch, StateReader& state) {
  reset();
  restore_input(*input_, epoch, state);
}

void Runner::save(StateWriter& state) const {
  std::lock_guard lock(mutex_);
  if (snapshots_.empty()) {  // no worker has drawn anything
    state.put(0);
    return input_->save(state);
  }
  const auto behind = std::find_if(snapshots_.begin() + 1, snapshots_.end(),
                                   [&](const Snapshot& snapshot) { return snapshot.position > delivered_; });
  const Snapshot& last = *std::prev(behind);
  state.put(delivered_ - last.position);
  state.put(last.integers);
}

// ---- the workers' side

void Runner::launch() {
  threads_.emplace_back([this] { work(); });
  counters_.workers = static_cast<int>(threads_.size());
}

void Runner::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  stopping_ = false;
}

void Runner::work() {
  const SerialScope serial;  // the pool belongs to training
  const sched_param same = {};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &same);  // waking up does not take the consumer's core away
  while (Slot* slot = draw()) {
    make_items(*slot);
    {
      std::lock_guard lock(mutex_);
      slot->ready = true;
    }
    ready_.notify_one();
  }
}

std::int64_t Runner::capacity() const {
  if (buffer_ != autotune) return buffer_;
  const auto chunk = static_cast<std::int64_t>(chunk_);
  const std::int64_t by_bytes = element_bytes_ > 0 ? largest_ahead / (element_bytes_ * chunk) : depth_;
  return chunk * std::max<std::int64_t>(std::min(depth_, by_bytes), most_workers_ + 1);
}

bool Runner::has_room() const {
  const auto ahead = drawn_ - released_;
  return drawn_slots_ - taken_slots_ < static_cast<std::int64_t>(slots_.size()) &&
         (ahead == 0 || ahead + static_cast<std::int64_t>(chunk_) <= capacity());
}

Runner::Slot* Runner::draw() {
  std::lock_guard drawing(draw_mutex_);
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return stopping_ || ended_ || has_room(); });
    if (stopping_ || ended_) return nullptr;
  }
  Slot& slot = slots_[static_cast<std::size_t>(drawn_slots_) % slots_.size()];
  remember_state();
  const std::size_t wanted = fill(slot);
  std::lock_guard lock(mutex_);
  ended_ = slot.count < wanted;
  drawn_ += static_cast<std::int64_t>(slot.count);
  if (slot.count > 0) {
    ++drawn_slots_;
    return &slot;
  }
  ready_.notify_one();  // the consumer may wait for an end
  return nullptr;
}

// Draws into the slot; returns how many it wanted.
std::size_t Runner::fill(Slot& slot) {
  const std::size_t wanted = chunk_;
  const std::int64_t begin = now_ns();
  slot.items.resize(wanted);
  slot.count = slot.read = 0;
  while (slot.count < wanted) {
    Item& item = slot.items[slot.count];
    item.job.clear();
    item.error = nullptr;
    try {
      if (!input_->pull(item.job)) break;
    } catch (...) {
      item.error = std::current_exception();
    }
    ++slot.count;
  }
  slot.drawing_ns = now_ns() - begin;
  return wanted;
}

void Runner::remember_state() {
  if (!snapshots_.empty() && drawn_ < snapshots_.back().position + positions_per_snapshot) return;
  Snapshot now{drawn_, {}};
  StateWriter writer(now.integers);
  input_->save(writer);
  std::lock_guard lock(mutex_);
  while (snapshots_.size() > 1 && snapshots_[1].position <= released_) snapshots_.pop_front();
  snapshots_.push_back(std::move(now));
}

void Runner::make_items(Slot& slot) {
  const std::int64_t begin = now_ns();
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < slot.count; ++i) {
    Item& item = slot.items[i];
    if (item.error) continue;
    try {
      JobReader reader(item.job);
      item.element = input_->run(reader);
      bytes += item.element.bytes();
    } catch (...) {
      item.error = std::current_exception();
    }
  }
  if (buffer_ == autotune) choose_chunk(slot, slot.drawing_ns + now_ns() - begin, bytes);
}

// As many neighbours as take that long, or as leave room for a slot of each worker. Some are made as they are drawn.
void Runner::choose_chunk(const Slot& slot, std::int64_t took, std::int64_t bytes) {
  const auto count = static_cast<std::int64_t>(slot.count);
  const std::int64_t by_time = chunk_ns / (took / count + 1);
  const std::int64_t by_bytes = largest_ahead / ((most_workers_ + 1) * (bytes / count + 1));
  std::lock_guard lock(mutex_);
  chunk_ = std::clamp<std::size_t>(static_cast<std::size_t>(std::min(by_time, by_bytes)), 1, largest_chunk);
  element_bytes_ = bytes / count;
}

// ---- the consumer's side

std::optional<Element> Runner::make() {
  if (threads_.empty() && !ended_)
    for (int i = 0; i < (tunes_workers_ ? 1 : most_workers_); ++i) launch();
  if (!reading_ && !wait_for_slot()) return {};
  return take_item();
}

// False: the end.
bool Runner::wait_for_slot() {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(taken_slots_) % slots_.size()];
  const auto ready = [&] { return taken_slots_ < drawn_slots_ ? slot.ready : ended_; };
  const bool waits = !ready();
  if (waits) {
    const std::int64_t begin = now_ns();
    ready_.wait(lock, ready);
    counters_.wait_ns += now_ns() - begin;
  }
  if (taken_slots_ == drawn_slots_) return false;
  reading_ = &slot;
  lock.unlock();
  tune(waits);
  return true;
}

std::optional<Element> Runner::take_item() {
  Item& item = reading_->items[reading_->read++];
  ++delivered_;
  if (counts_) counters_.count();
  const Element element = std::exchange(item.element, Element());
  const std::exception_ptr error = std::exchange(item.error, nullptr);
  if (reading_->read == reading_->count) release_slot();
  if (error) std::rethrow_exception(error);
  return element;
}

void Runner::release_slot() {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    reading_->ready = false;
    ++taken_slots_;
    released_ = delivered_;
    counters_.buffered = drawn_ - released_;
    counters_.capacity = capacity();
    wake = 2 * (drawn_ - released_) <= capacity();  // workers sleep until half of the buffer is free
  }
  reading_ = nullptr;
  if (wake) room_.notify_one();  // the one that draws
}

// More workers, then a deeper buffer, while the consumer has to wait.
void Runner::tune(bool waited) {
  waits_since_tuning_ += waited;
  if (++slots_since_tuning_ < 8) return;
  const bool starved = waits_since_tuning_ >= 2;
  slots_since_tuning_ = waits_since_tuning_ = 0;
  if (!starved) return;
  if (tunes_workers_ && static_cast<int>(threads_.size()) < most_workers_) return launch();
  std::lock_guard lock(mutex_);
  depth_ = std::min<std::int64_t>(2 * depth_, static_cast<std::int64_t>(slots_.size()) / 2);
}

}  // namespace thalweg::data
