#include "models/settings.h"

#include <algorithm>
#include <charconv>

namespace thalweg::models {
namespace {

template <class T>
bool parse(const std::string& text, T& value) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && end == text.data() + text.size();
}

template <class T>
std::string text_of(T value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string text_of(const std::vector<std::int64_t>& list) {
  std::string text;
  for (const auto value : list) text += (text.empty() ? "" : ",") + text_of(value);
  return text;
}

}  // namespace

// None: nobody has set it, and `otherwise` is what it is.
const std::string* SettingsReader::find(const std::string& name, const std::string& otherwise) {
  const auto found = settings_.find(name);
  const bool is_set = found != settings_.end();
  read_[name] = is_set ? found->second : otherwise;
  return is_set ? &found->second : nullptr;
}

void SettingsReader::refuse(const std::string& name, const std::string& expected) const {
  throw Error(ErrorCode::invalid_argument, model_,
              "expected " + expected + " for \"" + name + "\", got \"" + settings_.at(name) + "\"",
              "leave the setting out for its default");
}

std::int64_t SettingsReader::count(const std::string& name, std::int64_t otherwise) {
  const auto list = counts(name, {otherwise});
  if (list.size() > 1) refuse(name, "one count of 1 or more");
  return list.at(0);
}

double SettingsReader::number(const std::string& name, double otherwise) {
  const std::string* text = find(name, text_of(otherwise));
  double value = otherwise;
  if (text && !parse(*text, value)) refuse(name, "a number");
  return value;
}

std::vector<std::int64_t> SettingsReader::counts(const std::string& name, const std::vector<std::int64_t>& otherwise) {
  const std::string* text = find(name, text_of(otherwise));
  if (!text) return otherwise;
  std::vector<std::int64_t> list;
  for (std::size_t from = 0, end = 0; end != std::string::npos; from = end + 1) {
    end = text->find(',', from);
    std::int64_t value = 0;
    if (!parse(text->substr(from, end == std::string::npos ? end : end - from), value) || value < 1)
      refuse(name, "counts of 1 or more with commas between them");
    list.push_back(value);
  }
  return list;
}

std::string SettingsReader::word(const std::string& name, const std::string& otherwise) {
  const std::string* text = find(name, otherwise);
  return text ? *text : otherwise;
}

std::string SettingsReader::choice(const std::string& name, const std::vector<std::string>& words) {
  std::string chosen = word(name, words[0]);
  if (std::find(words.begin(), words.end(), chosen) == words.end()) {
    std::string list;
    for (const auto& one : words) list += (list.empty() ? "" : " or ") + one;
    refuse(name, list);
  }
  return chosen;
}

void SettingsReader::finish() const {
  for (const auto& [name, text] : settings_) {
    if (read_.count(name)) continue;
    std::string list;
    for (const auto& one : read_) list += (list.empty() ? "" : ", ") + one.first;
    throw Error(ErrorCode::invalid_argument, model_, "there is no setting \"" + name + "\"", "settings are " + list);
  }
}

}  // namespace thalweg::models
