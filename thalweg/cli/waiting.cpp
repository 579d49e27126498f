#include "thalweg/cli/waiting.h"

#include <chrono>
#include <iostream>

#include "thalweg/cli/messages.h"

namespace thalweg::cli {

Waiting::Waiting(const std::string& what) {
  if (draws_on_terminal()) thread_ = std::thread([this, what] { tell(what); });
}

Waiting::~Waiting() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  over_.notify_one();
  thread_.join();
}

void Waiting::tell(const std::string& what) {
  using namespace std::chrono_literals;
  constexpr auto silent = 3s;
  std::unique_lock lock(mutex_);
  if (over_.wait_for(lock, silent, [this] { return done_; })) return;
  for (auto seconds = silent; !over_.wait_for(lock, 1s, [this] { return done_; }); ++seconds)
    std::cerr << '\r' << what << " … " << seconds.count() + 1 << " s" << std::flush;
  std::cerr << "\r\033[K" << std::flush;  // the line is empty again
}

}  // namespace thalweg::cli
