#include "thalweg/cli/messages.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

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

std::string in_own_words(const std::string& error) {
  static constexpr std::pair<const char*, const char*> words[] = {
      {".missing", "fill in the empty fields"},
      {".columns", "write a number there; classes are numbered 0, 1, 2, …"},
      {"TextUnit::bytes", "convert the file to UTF-8"},
      {".max_record", "store shorter records"},
      {".max_pixels", "scale the image down"},
  };
  constexpr std::string_view mark = "\n  hint: ";
  const auto hint = error.rfind(mark);
  if (hint == std::string::npos) return error;
  for (const auto& [of_the_library, own] : words)
    if (error.find(of_the_library, hint) != std::string::npos) return error.substr(0, hint + mark.size()) + own;
  return error;
}

std::string counted(std::int64_t count, const std::string& thing) {
  return std::to_string(count) + ' ' + thing + (count == 1 ? "" : "s");
}

void print_error(const std::string& text) { message("error", "\033[1;31m", text); }
void print_warning(const std::string& text) { message("warning", "\033[1;33m", text); }

}  // namespace thalweg::cli
