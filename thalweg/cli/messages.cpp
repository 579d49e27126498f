#include "thalweg/cli/messages.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <set>
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

// Hints as the library words them, whole: others are left as they are.
std::string in_own_words(const std::string& error) {
  constexpr const char* smaller = "choose a smaller --batch, or smaller sizes of the model by --set";
  static constexpr std::pair<std::string_view, const char*> words[] = {
      {"set .missing for empty fields", "fill in the empty fields"},
      {"write a number there, leave the column out of .columns, or give it another dtype",
       "write a number there; classes are numbered 0, 1, 2, …"},
      {"use TextUnit::bytes, or convert the file to UTF-8", "convert the file to UTF-8"},
      {"raise .max_record", "store shorter records"},
      {"scale the image down, or raise .max_pixels", "scale the image down"},
      {"use {.padding = tw::same}, a smaller window or a larger input", "take larger images, or fewer layers"},
      {"use a smaller batch, free tensors or a persistent tape, or raise config::memory_limit", smaller},
      {"use a smaller batch or set config::memory_limit below the machine's memory", smaller},
  };
  constexpr std::string_view mark = "\n  hint: ";
  const auto hint = error.rfind(mark);
  if (hint == std::string::npos) return error;
  for (const auto& [of_the_library, own] : words)
    if (error.substr(hint + mark.size()) == of_the_library) return error.substr(0, hint + mark.size()) + own;
  return error;
}

std::string counted(std::int64_t count, const std::string& thing) {
  return std::to_string(count) + ' ' + thing + (count == 1 ? "" : "s");
}

void print_error(const std::string& text) { message("error", "\033[1;31m", text); }
void print_warning(const std::string& text) { message("warning", "\033[1;33m", text); }
void warn_once(const std::string& text) {
  static std::set<std::string> told;
  if (told.insert(text).second) print_warning(text);
}

}  // namespace thalweg::cli
