// The state of an optimizer: made at the first apply(), for the variables that it is given.
#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/widen.h"
#include "thalweg/optim/pipeline.h"

namespace thalweg::optim {
namespace {

void check_options(const std::string& name, const CommonOptions& o) {
  const int bounds = o.clip_norm.has_value() + o.clip_value.has_value() + o.global_clip_norm.has_value();
  TW_CHECK_USER(bounds <= 1, name.c_str(), "set one of .clip_norm, .clip_value and .global_clip_norm",
                "expected at most one bound for gradients, got {}", bounds);
  for (const auto& bound : {o.clip_norm, o.clip_value, o.global_clip_norm})
    TW_CHECK_USER(!bound || *bound > 0, name.c_str(), "a bound of 1 is common", "expected a bound above 0, got {}",
                  *bound);
  TW_CHECK_USER(!o.ema_momentum || (*o.ema_momentum >= 0 && *o.ema_momentum <= 1), name.c_str(), "0.99 is usual",
                "expected .ema_momentum between 0 and 1, got {}", *o.ema_momentum);
  TW_CHECK_USER(o.accumulate_steps >= 1, name.c_str(), "1 switches accumulation off",
                "expected .accumulate_steps of 1 or more, got {}", o.accumulate_steps);
  TW_CHECK_USER(!o.weight_decay || *o.weight_decay >= 0, name.c_str(), "0.004 is usual",
                "expected .weight_decay of 0 or more, got {}", *o.weight_decay);
}

bool matches(const std::vector<std::regex>& patterns, const std::string& name) {
  for (const auto& pattern : patterns)
    if (std::regex_search(name, pattern)) return true;
  return false;
}

}  // namespace

Pipeline::Pipeline(std::string name, CommonOptions options, std::unique_ptr<Rule> rule)
    : name_(std::move(name)), options_(std::move(options)), rule_(std::move(rule)), living_("optimizer " + name_) {
  check_options(name_, options_);
  iterations_ = Iterations(scalar(0, i64), {.name = name_ + "/iterations", .trainable = false});
  if (const auto* rate = std::get_if<double>(&options_.learning_rate.get()))
    rate_ = make_state("learning_rate", {}, *rate, f64);
  if (options_.accumulate_steps > 1) {
    calls_ = make_state("accumulated_calls", {}, 0, i64);
    weight_ = make_state("accumulated_weight", {}, 0, f64);
  }
}

Variable Pipeline::make_state(const std::string& name, const Shape& shape, double initial, DType dtype) const {
  const TraceScope eager(nullptr);
  const PauseRecording pause;
  const Number value = is_float(dtype) ? Number(initial) : Number(static_cast<std::int64_t>(initial));
  return Variable(full(shape, value, dtype), {.name = name_ + "/" + name, .trainable = false});
}

Pipeline::Entry Pipeline::make_entry(const Variable& variable) const {
  Entry entry{.tables = {variable}, .sum = {}, .decay = {}, .accumulates = false};
  const std::string prefix = variable.name() + "/";
  const DType dtype = variable.dtype();
  for (const auto& slot : rule_->slots(variable))
    entry.tables.push_back(make_state(prefix + slot.name, slot.shape, slot.initial, dtype));
  if (options_.ema_momentum) {
    entry.tables.push_back(make_state(prefix + "average", variable.shape(), 0, dtype));
    const TraceScope eager(nullptr);
    entry.tables.back().assign(variable);
  }
  if (options_.accumulate_steps > 1) entry.sum = make_state(prefix + "gradient_sum", variable.shape(), 0, wide(dtype));
  const auto decay = rule_->weight_decay(variable, options_.weight_decay);
  if (decay && *decay > 0 && !matches(undecayed_, variable.name())) entry.decay = decay;
  return entry;
}

void Pipeline::build(const std::vector<Variable>& variables) {
  TW_CHECK(failed_precondition, entries_.empty(), name_.c_str(), "make a new optimizer for other variables",
           "expected an optimizer without state, got one for {} variables", entries_.size());
  const PauseRecording pause;
  for (const auto& variable : variables) {
    if (!places_.emplace(variable.id(), entries_.size()).second) continue;
    entries_.push_back(make_entry(variable));
  }
}

std::vector<Variable> Pipeline::variables() const {
  std::vector<Variable> list{iterations_};
  const auto add = [&](const Variable& variable) {
    if (variable.defined()) list.push_back(variable);
  };
  add(rate_), add(calls_), add(weight_);
  for (const auto& variable : rule_->shared()) add(variable);
  for (const auto& entry : entries_) {
    for (std::size_t i = 1; i < entry.tables.size(); ++i) add(entry.tables[i]);
    add(entry.sum);
  }
  return list;
}

void Pipeline::exclude_from_weight_decay(const std::vector<std::string>& patterns) {
  TW_CHECK(failed_precondition, entries_.empty(), "exclude_from_weight_decay",
           "call it right after making the optimizer", "expected a call before the first apply(), got one after it");
  for (const auto& pattern : patterns) undecayed_.push_back(regular_expression("exclude_from_weight_decay", pattern));
}

Tensor Pipeline::learning_rate() const {
  const PauseRecording pause;
  const auto& rate = options_.learning_rate.get();
  if (const auto* schedule = std::get_if<schedules::Schedule>(&rate)) return (*schedule)(iterations_);
  if (const auto* host = std::get_if<LearningRate::Host>(&rate))
    return host_number(
        [host = *host, iterations = iterations_] {
          const TraceScope eager(nullptr);
          return host(iterations);
        },
        f64);
  return rate_;
}

void Pipeline::set_learning_rate(double rate) {
  TW_CHECK(failed_precondition, rate_.defined(), "set_learning_rate",
           "make the optimizer with a number, or change what the schedule computes",
           "expected a learning rate that is a number, got a schedule");
  rate_.assign(scalar(rate, f64));
}

void Pipeline::assign_averages() {
  TW_CHECK(failed_precondition, options_.ema_momentum.has_value(), "assign_averages",
           "make the optimizer with {.ema_momentum = 0.99}",
           "expected an optimizer that averages, got one that does not");
  const PauseRecording pause;
  for (auto& entry : entries_) entry.variable().assign(entry.tables.back());
}

void check_part(const char* optimizer, const char* option, double value) {
  TW_CHECK_USER(value >= 0 && value <= 1, optimizer, "0.9 is usual", "expected {} between 0 and 1, got {}", option,
                value);
}

std::regex regular_expression(const char* op, const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    TW_FAIL(invalid_argument, op, "escape characters such as ( [ * +", "expected a regular expression, got \"{}\": {}",
            pattern, error.what());
  }
}

}  // namespace thalweg::optim
