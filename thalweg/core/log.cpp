#include "thalweg/core/log.h"

#include <cstdio>
#include <mutex>

namespace thalweg {
namespace {

struct Log {
  std::mutex mutex;
  std::function<void(const std::string&)> handler = print_warning;
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

void print_warning(const std::string& message) {
  std::string line = "thalweg: warning: ";
  bool broken = false;  // a line break and the spaces behind it become one space
  for (const char c : message) {
    if (c == '\n' || (broken && c == ' ')) {
      broken = true;
      continue;
    }
    if (broken) line += ' ';
    broken = false;
    line += c;
  }
  line += '\n';
  std::fputs(line.c_str(), stderr);  // in one piece: threads do not mix their lines
}

void warn(const std::string& message) {
  std::function<void(const std::string&)> handler;
  {
    std::lock_guard lock(log().mutex);
    handler = log().handler;
  }
  if (!handler) return;
  try {
    handler(message);
  } catch (...) {
    print_warning(message);
  }
}

}  // namespace thalweg
