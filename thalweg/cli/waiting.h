#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace thalweg::cli {

// While it lives, and once that takes some seconds, a terminal at standard error tells what is being done and for how
// long. What was drawn goes with it.
class Waiting {
 public:
  explicit Waiting(const std::string& what);
  ~Waiting();
  Waiting(const Waiting&) = delete;

 private:
  void tell(const std::string& what);

  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace thalweg::cli
