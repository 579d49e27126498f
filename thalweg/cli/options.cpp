// Values of options; those of train by their names are what `tune --grid` sets.
#include <charconv>

#include "thalweg/cli/commands.h"

namespace thalweg::cli {
namespace {

template <class T>
T number(const std::string& name, const std::string& text) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size())
    throw UsageError("expected a number for --" + name + ", got \"" + text + "\"");
  return value;
}

}  // namespace

std::map<std::string, std::string> parse_settings(const char* option, const std::vector<std::string>& list) {
  std::map<std::string, std::string> settings;
  for (const auto& one : list) {
    const auto equals = one.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError("expected " + std::string(option) + " key=value, got \"" + one + "\"");
    settings[one.substr(0, equals)] = one.substr(equals + 1);
  }
  return settings;
}

Precision parse_precision(const std::string& name) {
  return name == "bf16" ? Precision::bf16 : name == "f16" ? Precision::f16 : Precision::f32;
}

void check_device(const char* command, const std::string& device) {
  if (device != "cpu" && device != "cpu:0")
    throw Error(ErrorCode::unavailable, command, "there is no device \"" + device + "\"",
                "thalweg devices lists those that are there, and says why others are not");
}

void set_option(TrainOptions& options, const std::string& name, const std::string& value) {
  const std::map<std::string, std::string*> words = {
      {"optimizer", &options.optimizer}, {"schedule", &options.schedule},   {"loss", &options.loss},
      {"data", &options.data},           {"precision", &options.precision}, {"memory-budget", &options.memory_budget}};
  const std::map<std::string, std::optional<double>*> numbers = {{"lr", &options.lr},
                                                                 {"weight-decay", &options.weight_decay},
                                                                 {"clip-norm", &options.clip_norm},
                                                                 {"clip-value", &options.clip_value},
                                                                 {"global-clip-norm", &options.global_clip_norm}};
  const std::map<std::string, std::int64_t*> counts = {
      {"epochs", &options.epochs}, {"steps", &options.steps}, {"batch", &options.batch}, {"subset", &options.subset}};
  if (const auto at = words.find(name); at != words.end())
    *at->second = value;
  else if (const auto real = numbers.find(name); real != numbers.end())
    *real->second = number<double>(name, value);
  else if (const auto count = counts.find(name); count != counts.end())
    *count->second = number<std::int64_t>(name, value);
  else if (name == "accumulate")
    options.accumulate = number<int>(name, value);
  else if (name == "seed")
    options.seed = number<std::uint64_t>(name, value);
  else
    options.settings.push_back(name + "=" + value);  // a size of the model, which says itself if it has none
}

}  // namespace thalweg::cli
