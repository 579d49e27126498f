#pragma once

// Threads that make elements ahead of the consumer. They draw jobs one after the other under a lock, make them side by
// side, and hand them over in the order in which they were drawn.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "thalweg/data/node.h"

namespace thalweg::data {

class Runner final : public Whole {
 public:
  // `workers` and `buffer` (elements) may be autotune. `counts`: whether elements are counted here; where a stage's own
  // counters are used, it counts them itself.
  Runner(CursorPtr input, int workers, int buffer, StageCounters& counters, bool counts);
  ~Runner() override;

  void start(std::int64_t epoch) override;
  void save(StateWriter& state) const override;
  void restore(std::int64_t epoch, StateReader& state) override;

 protected:
  std::optional<Element> make() override;

 private:
  struct Item {
    Job job;
    Element element;
    std::exception_ptr error;
  };
  // Neighbours that one worker makes in one go: handing over costs more than a short function.
  struct Slot {
    std::vector<Item> items;
    std::size_t count = 0, read = 0;
    std::int64_t drawing_ns = 0;
    bool ready = false;
  };
  // What the input's state was in front of the element of that number.
  struct Snapshot {
    std::int64_t position;
    std::vector<std::int64_t> integers;
  };

  void launch();
  void stop();
  void reset();
  void work();
  Slot* draw();
  std::size_t fill(Slot& slot);
  void make_items(Slot& slot);
  void choose_chunk(const Slot& slot, std::int64_t took, std::int64_t bytes);
  void remember_state();
  bool has_room() const;
  bool wait_for_slot();
  std::optional<Element> take_item();
  void release_slot();
  void tune(bool waited);
  std::int64_t capacity() const;

  CursorPtr input_;
  const int most_workers_, buffer_;
  const bool tunes_workers_;
  StageCounters& counters_;
  const bool counts_;

  std::mutex draw_mutex_;     // held while a worker draws: one at a time, in order
  mutable std::mutex mutex_;  // for all below
  std::condition_variable room_, ready_;
  std::vector<Slot> slots_;
  std::deque<Snapshot> snapshots_;
  std::int64_t drawn_slots_ = 0, taken_slots_ = 0;  // slot n is slots_[n % slots_.size()]
  std::int64_t drawn_ = 0, released_ = 0;           // elements
  std::int64_t depth_ = 4;                          // slots that may be ahead, while tuning
  std::int64_t element_bytes_ = 0;                  // of one made lately
  bool ended_ = false, stopping_ = false;

  std::atomic<std::size_t> chunk_{1};
  std::vector<std::thread> threads_;  // only the consumer's
  Slot* reading_ = nullptr;
  std::int64_t delivered_ = 0;
  int slots_since_tuning_ = 0, waits_since_tuning_ = 0;
};

}  // namespace thalweg::data
