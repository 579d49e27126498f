#include "thalweg/core/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

namespace thalweg {
namespace {

struct Log {
  std::mutex mutex;
  std::function<void(const std::string&)> handler = {};
};

Log& log() {
  static auto* state = new Log;
  return *state;
}

struct Line {
  std::mutex mutex;
  bool drawn = false;
  int warnings = 0;  // that are being printed: nothing is drawn meanwhile

  void print(const std::string& text) { std::fputs(text.c_str(), stderr), std::fflush(stderr); }
};

Line& line() {
  static auto* state = new Line;
  return *state;
}

constexpr const char *begin = "\r", *rest = "\033[K";  // of the line: go there, clear it

class LineCleared {
 public:
  LineCleared() {
    std::lock_guard lock(line().mutex);
    ++line().warnings;
    if (line().drawn) line().print(std::string(begin) + rest);
    line().drawn = false;
  }
  ~LineCleared() {
    std::lock_guard lock(line().mutex);
    --line().warnings;
  }
  LineCleared(const LineCleared&) = delete;
};

// Longer lines would go on in the next one, where `begin` does not lead back.
std::string fitting(const std::string& text) {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? text.substr(0, size.ws_col - 1u) : text;
}

}  // namespace

void draw_line(const std::string& text) {
  std::lock_guard lock(line().mutex);
  if (line().warnings > 0) return;
  line().print(begin + fitting(text) + rest);
  line().drawn = true;
}

void end_line(const std::string& text) {
  std::lock_guard lock(line().mutex);
  if (!text.empty())
    line().print((line().drawn ? std::string(begin) + rest : "") + text + "\n");
  else if (line().drawn)
    line().print("\n");
  line().drawn = false;
}

void set_log_handler(std::function<void(const std::string&)> handler) {
  std::lock_guard lock(log().mutex);
  log().handler = std::move(handler);
}

bool is_silent() {
  std::lock_guard lock(log().mutex);
  return !log().handler;
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
  const LineCleared cleared;
  try {
    handler(message);
  } catch (...) {
    print_warning(message);
  }
}

}  // namespace thalweg
