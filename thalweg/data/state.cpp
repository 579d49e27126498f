#include <charconv>

#include "thalweg/core/check.h"
#include "thalweg/data/iterator.h"
#include "thalweg/data/state_io.h"

namespace thalweg::data {
namespace {

constexpr auto hint = "restore a state that an iterator of an equal pipeline saved";

}  // namespace

std::string State::to_string() const {
  std::string text;
  for (const auto value : integers) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

State State::from_string(std::string_view text) {
  State state;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::int64_t value = 0;
    const auto [behind, error] = std::from_chars(at, end, value);
    TW_CHECK_USER(error == std::errc() && (behind == end || *behind == ' '), "restore", hint,
                  "expected integers with spaces between, found something else at character {}", at - text.data());
    state.integers.push_back(value);
    at = behind == end ? end : behind + 1;
  }
  return state;
}

std::int64_t StateReader::take_any() {
  TW_CHECK_USER(next_ < integers_.size(), "restore", hint, "the state ends after {} integers", integers_.size());
  return integers_[next_++];
}

std::int64_t StateReader::take(const char* what, std::int64_t largest) {
  const std::int64_t value = take_any();
  TW_CHECK_USER(value >= 0 && value <= largest, "restore", hint, "{} must be from 0 to {}, the state has {}", what,
                largest, value);
  return value;
}

void StateReader::finish() const {
  TW_CHECK_USER(next_ == integers_.size(), "restore", hint, "expected {} integers, the state has {}", next_,
                integers_.size());
}

}  // namespace thalweg::data
