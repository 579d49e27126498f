#include "thalweg/train/logs.h"

#include <algorithm>

#include "thalweg/core/check.h"

namespace thalweg::train {

void Logs::set(const std::string& name, double value) {
  const auto at = std::find_if(list_.begin(), list_.end(), [&](const auto& entry) { return entry.first == name; });
  if (at == list_.end())
    list_.emplace_back(name, value);
  else
    at->second = value;
}

std::optional<double> Logs::find(const std::string& name) const {
  for (const auto& [known, value] : list_)
    if (known == name) return value;
  return {};
}

double Logs::operator[](const std::string& name) const {
  const auto value = find(name);
  std::string names;
  for (const auto& entry : list_) names += (names.empty() ? "" : ", ") + entry.first;
  TW_CHECK(not_found, value.has_value(), "fit", "there is " + (names.empty() ? "nothing yet" : names),
           "expected a value that was measured, got \"{}\"", name);
  return *value;
}

std::vector<double> History::operator[](const std::string& name) const {
  std::vector<double> values;
  for (const auto& logs : epochs) values.push_back(logs[name]);
  return values;
}

double History::last(const std::string& name) const {
  TW_CHECK(failed_precondition, !epochs.empty(), "fit", "train for one epoch or more", "no epoch has ended yet");
  return epochs.back()[name];
}

}  // namespace thalweg::train
