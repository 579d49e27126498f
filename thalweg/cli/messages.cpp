#include "thalweg/cli/messages.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace thalweg::cli {
namespace {

bool coloured() {
  const char* refused = std::getenv("NO_COLOR");
  return draws_on_terminal() && !(refused && *refused);
}

void message(const char* kind, const char* colour, const std::string& text) {
  const bool paint = coloured();
  std::cerr << (paint ? colour : "") << kind << ": " << (paint ? "\033[0m" : "") << text << '\n';
}

// Letters to write, to leave out or to change.
std::size_t changes_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t corner = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, corner + 1});
    }
  }
  return row.back();
}

}  // namespace

bool draws_on_terminal() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) && terminal && std::string(terminal) != "dumb";
}

// Hints as the library words them, whole: others are left as they are.
std::string in_own_words(const std::string& error) {
  constexpr const char* smaller = "choose a smaller --batch, or smaller sizes of the model by --set";
  static constexpr std::pair<std::string_view, const char*> words[] = {
      {"set .missing for empty fields", "fill in the empty fields"},
      {"write a number there, leave the column out of .columns, or give it another dtype",
       "write a number there; classes are numbered 0, 1, 2, …"},
      {"use TextUnit::bytes, or convert the file to UTF-8", "convert the file to UTF-8"},
      {"raise .max_record", "store shorter records"},
      {"set .default_value for features that may be missing", "store the features x and y in every record"},
      {"bytes give u8; integers i64, i32, u8 or boolean; floats f32 or f64",
       "store x as floats, and y as an integer or a float"},
      {"give the feature another shape; without one it is a vector of any length",
       "store as many values in every record, those of one example"},
      {"the record is no tf.train.Example; read it without .features to see its bytes",
       "store every record as a tf.train.Example with the features x and y"},
      {"for example {.height = 64, .width = 64, .channels = 3}", "choose --set channels=1, 3 or 4"},
      {"for example {.count = 1000, .size = 64}", "choose another --set size=N"},
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

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::size_t letters = word.size() - std::min(word.size(), word.find_first_not_of('-'));
  std::size_t least = std::clamp<std::size_t>((letters - std::min<std::size_t>(letters, 1)) / 2, 1, 3) + 1;
  std::string nearest;
  for (const auto& one : known)
    if (const std::size_t changes = changes_between(word, one); changes < least) least = changes, nearest = one;
  return nearest.empty() ? "" : ", did you mean " + nearest + "?";
}

std::string line_of(const nlohmann::ordered_json& values) {
  return values.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace thalweg::cli
