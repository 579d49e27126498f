#pragma once

// A mutex for what is held for a moment: whoever finds it taken looks again for a while before the thread is put to
// sleep, which costs more than the wait.
#include <mutex>

namespace thalweg {

class PatientMutex {
 public:
  void lock() {
    for (int looks = 0; looks < 200; ++looks) {
      if (mutex_.try_lock()) return;
      __builtin_ia32_pause();
    }
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace thalweg
