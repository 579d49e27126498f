#include "thalweg/core/log.h"

#include <mutex>

namespace thalweg {
namespace {

struct Log {
  std::mutex mutex;
  std::function<void(const std::string&)> handler;
};

Log& log() {
  static auto* state = new Log;
  return *state;
}

}  // namespace

void set_log_handler(std::function<void(const std::string&)> handler) {
  std::lock_guard lock(log().mutex);
  log().handler = std::move(handler);
}

void warn(const std::string& message) {
  std::function<void(const std::string&)> handler;
  {
    std::lock_guard lock(log().mutex);
    handler = log().handler;
  }
  if (handler) handler(message);
}

}  // namespace thalweg
