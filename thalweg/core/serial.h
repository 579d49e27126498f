#pragma once

namespace thalweg {

// While it lives, ops of this thread run on this thread alone and ask nothing of the pool. Results have the same bits.
class SerialScope {
 public:
  SerialScope();
  ~SerialScope();
  SerialScope(const SerialScope&) = delete;

 private:
  bool before_;
};

// How many threads the ops of this thread have: one within a SerialScope or a task, else those of the pool.
int threads_at_hand();

}  // namespace thalweg
