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

}  // namespace thalweg
