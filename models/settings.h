#pragma once

#include "models/steps.h"

namespace thalweg::models {

// Settings as they are read: what nobody asked for is an error in the end.
class SettingsReader {
 public:
  SettingsReader(std::string model, const Settings& settings) : model_(std::move(model)), settings_(settings) {}

  // The number by this name, or `otherwise`; at least 1.
  std::int64_t count(const std::string& name, std::int64_t otherwise);
  double number(const std::string& name, double otherwise);
  // "64,128"
  std::vector<std::int64_t> counts(const std::string& name, const std::vector<std::int64_t>& otherwise);
  std::string word(const std::string& name, const std::string& otherwise);
  // One of these words; the first if there is none.
  std::string choice(const std::string& name, const std::vector<std::string>& words);
  bool has(const std::string& name) const { return settings_.count(name) > 0; }
  void finish() const;
  const Settings& read() const { return read_; }  // all that were asked for, with their defaults where none were set

 private:
  const std::string* find(const std::string& name, const std::string& otherwise);
  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;

  const std::string model_;
  const Settings& settings_;
  Settings read_;
};

}  // namespace thalweg::models
