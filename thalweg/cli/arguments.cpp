#include "thalweg/cli/arguments.h"

#include <charconv>
#include <cmath>

#include "models/steps.h"
#include "thalweg/cli/run.h"

namespace thalweg::cli {
namespace {

// Texts that are a number as a whole, for which `good` holds. Whole ones are written anew: the parser takes 010 for 8.
template <class T>
CLI::Validator number(const char* name, const char* wanted, bool (*good)(T)) {
  const auto check = [=](std::string& text) {
    T value{};
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = fault == std::errc() && end == text.data() + text.size();
    if (!whole || !good(value)) return std::string("expected ") + wanted + ", got \"" + text + "\"";
    if constexpr (std::is_integral_v<T>) text = std::to_string(value);
    return std::string();
  };
  return CLI::Validator(check, name);
}

// A command with the options of training alone.
void add_options(CLI::App& command, TrainOptions& options) {
  command.set_help_flag();
  add_training(command, options);
  command.get_option("model")->required(false);
}

// Of the option by this name; none: there is no such option.
std::optional<bool> takes_value(const std::string& name) {
  CLI::App command;
  TrainOptions options;
  add_options(command, options);
  const auto* found = command.get_option_no_throw("--" + name);
  return found ? std::optional(found->get_expected_min() > 0) : std::nullopt;
}

}  // namespace

CLI::Validator count() {
  return number<std::int64_t>("POSITIVE", "a whole number above 0", [](std::int64_t value) { return value > 0; });
}
CLI::Validator above_zero() {
  return number<double>("POSITIVE", "a number above 0", [](double value) { return value > 0 && std::isfinite(value); });
}
CLI::Validator zero_or_more() {
  return number<double>("NONNEGATIVE", "a number of 0 or more",
                        [](double value) { return value >= 0 && std::isfinite(value); });
}

std::string wrong_size(const std::string& text) {
  try {
    parse_size(text);
  } catch (const UsageError& wrong) {
    return wrong.what();
  }
  return {};
}

std::string no_text(const std::string& text) { return text.empty() ? "expected a value, got an empty one" : ""; }

void add_model(CLI::App& command, std::string& model) {
  command.add_option("model", model, "the model")->required()->check(CLI::IsMember(models::step_names()));
}

void add_settings(CLI::App& command, std::vector<std::string>& settings) {
  command.add_option("--set", settings, "key=value, a size of the model; may be repeated")->allow_extra_args(false);
}

void add_training(CLI::App& command, TrainOptions& o) {
  add_model(command, o.model);
  command
      .add_option("--data", o.data,
                  "fashion-mnist, shapes, or a path: csv, npy, npz, tfrecord, text, a folder of idx files or images")
      ->check(no_text);
  command.add_option("--epochs", o.epochs, "passes over the data")->transform(count());
  command.add_option("--steps", o.steps, "steps in all")->transform(count());
  command.add_option("--batch", o.batch, "examples in a batch")->transform(count());
  command.add_option("--optimizer", o.optimizer, "the rule")->check(CLI::IsMember(models::optimizer_names()));
  command.add_option("--lr", o.lr, "the learning rate")->check(zero_or_more());
  command.add_option("--schedule", o.schedule, "of the rate over the run")->check(CLI::IsMember(schedule_names()));
  command.add_option("--weight-decay", o.weight_decay, "of the weights")->check(zero_or_more());
  command.add_option("--clip-norm", o.clip_norm, "largest norm of each gradient")->check(above_zero());
  command.add_option("--clip-value", o.clip_value, "largest magnitude of each element")->check(above_zero());
  command.add_option("--global-clip-norm", o.global_clip_norm, "largest norm of all together")->check(above_zero());
  command.add_option("--precision", o.precision, "of the computation")->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command.add_option("--memory-budget", o.memory_budget, "of a step: bytes, or with KiB, MiB, GiB")->check(wrong_size);
  command.add_option("--accumulate", o.accumulate, "batches that make one update")->transform(count());
  command.add_option("--device", o.device, "where to compute");
  command.add_option("--threads", o.threads, "that compute")->transform(count());
  command.add_option("--seed", o.seed, "of everything random")
      ->transform(number<std::uint64_t>("", "a whole number of 0 or more", [](std::uint64_t) { return true; }));
  command.add_flag("--eager", o.eager, "op by op, not compiled");
  command.add_option("--loss", o.loss, "another loss than the model's own")->check(CLI::IsMember(loss_names()));
  command.add_option("--subset", o.subset, "examples at most to train on, and to test on")->transform(count());
  add_settings(command, o.settings);
}

bool is_option(const std::string& name) { return takes_value(name).has_value(); }
bool is_flag(const std::string& name) { return takes_value(name) == false; }

void set_option(TrainOptions& options, const std::string& name, const std::string& value) {
  if (!is_option(name) || name == "set") {  // a size of the model, which says itself if it has none; beside the others
    options.settings.push_back(name == "set" ? value : name + "=" + value);
    return;
  }
  CLI::App command;
  add_options(command, options);
  try {
    command.parse(std::vector<std::string>{"--" + name + "=" + value});
  } catch (const CLI::ParseError& wrong) {
    throw UsageError(wrong.what());
  }
}

}  // namespace thalweg::cli
