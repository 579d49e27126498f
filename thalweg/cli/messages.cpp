#include "thalweg/cli/messages.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

namespace thalweg::cli {
namespace {

bool coloured() {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) && !(refused && *refused) && terminal && std::string(terminal) != "dumb";
}

void message(const char* kind, const char* colour, const std::string& text) {
  const bool paint = coloured();
  std::cerr << (paint ? colour : "") << kind << ": " << (paint ? "\033[0m" : "") << text << '\n';
}

}  // namespace

void print_error(const std::string& text) { message("error", "\033[1;31m", text); }
void print_warning(const std::string& text) { message("warning", "\033[1;33m", text); }

}  // namespace thalweg::cli
