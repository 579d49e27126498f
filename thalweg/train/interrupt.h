#pragma once

namespace thalweg::train {

// While it lives, the first Ctrl-C (or SIGTERM, SIGUSR1) is only noted; the second one ends the process. So is a
// terminal that goes away. A program that has handlers of its own keeps them.
class InterruptScope {
 public:
  explicit InterruptScope(bool active);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  static int signal();  // that came first; 0: none

 private:
  bool active_;
};

}  // namespace thalweg::train
