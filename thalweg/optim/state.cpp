// The state of an optimizer: made at the first apply(), for the variables that it is given.
#include <algorithm>
#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/widen.h"
#include "thalweg/optim/pipeline.h"

namespace thalweg::optim {
namespace {

void check_options(const std::string& name, const CommonOptions& o) {
  const int bounds = o.clip_norm.has_value() + o.clip_value.has_value() + o.global_clip_norm.has_value();
  TW_CHECK_USER(bounds <= 1, name.c_str(), "set one of .clip_norm, .clip_value and .global_clip_norm",
                "expected at most one bound for gradients, got {}", bounds);
  for (const auto& bound : {o.clip_norm, o.clip_value, o.global_clip_norm})
    TW_CHECK_USER(!bound || (*bound > 0 && std::isfinite(*bound)), name.c_str(), "leave it unset for no bound",
                  "expected a bound above 0 that is finite, got {}", *bound);
  TW_CHECK_USER(!o.ema_momentum || (*o.ema_momentum >= 0 && *o.ema_momentum <= 1), name.c_str(), "0.99 is usual",
                "expected .ema_momentum between 0 and 1, got {}", *o.ema_momentum);
  TW_CHECK_USER(o.accumulate_steps >= 1, name.c_str(), "1 switches accumulation off",
                "expected .accumulate_steps of 1 or more, got {}", o.accumulate_steps);
  TW_CHECK_USER(!o.weight_decay || (*o.weight_decay >= 0 && std::isfinite(*o.weight_decay)), name.c_str(),
                "0.004 is usual", "expected .weight_decay of 0 or more, got {}", *o.weight_decay);
}

void check_rate(const char* op, double rate) {
  TW_CHECK_USER(std::isfinite(rate), op, "0.001 is usual", "expected a learning rate that is finite, got {}", rate);
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
    check_rate(name_.c_str(), *rate), rate_ = make_state("learning_rate", {}, *rate, f64);
  set_accumulate_steps(options_.accumulate_steps);
}

void Pipeline::set_accumulate_steps(int steps) {
  const std::lock_guard lock(mutex_);
  TW_CHECK(failed_precondition, steps == options_.accumulate_steps || entries_.empty(), "set_accumulate_steps",
           "make a new optimizer", "expected a call before the first apply(), got one after it");
  CommonOptions options = options_;
  options.accumulate_steps = steps;
  check_options(name_, options);
  if (steps == 1) {
    calls_ = weight_ = Variable();
  } else if (!calls_.defined()) {
    const Variable calls = make_state("accumulated_calls", {}, 0, i64);
    weight_ = make_state("accumulated_weight", {}, 0, f64), calls_ = calls;
  }
  options_.accumulate_steps = steps;
}

Variable Pipeline::make_state(const std::string& name, const Shape& shape, double initial, DType dtype) {
  const TraceScope eager(nullptr);
  const PauseRecording pause;
  const std::string path = name_ + "/" + name;
  Tensor value;
  if (const auto given = pending_.extract(path)) {
    value = given.mapped();
    TW_CHECK_USER(value.spec() == (Spec{dtype, shape}), "set_state", "the state belongs to a model of another size",
                  "\"{}\": expected {} {}, got {} {}", path, shape, dtype, value.shape(), value.dtype());
  } else {
    TW_CHECK_USER(!restored_, "set_state", "the state belongs to another model, or to an optimizer with other options",
                  "expected a value for \"{}\", got none", path);
    value = full(shape, is_float(dtype) ? Number(initial) : Number(static_cast<std::int64_t>(initial)), dtype);
  }
  return Variable(value, {.name = path, .trainable = false});
}

std::map<std::string, Variable> Pipeline::state() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Variable> by_name;
  for (const auto& variable : variables())
    TW_CHECK_USER(by_name.emplace(variable.name(), variable).second, "optimizer",
                  "give the variables that are trained different names",
                  "expected state of different names, got \"{}\" twice", variable.name());
  for (const auto& [name, value] : pending_) by_name.emplace(name, Variable(value, {.name = name, .trainable = false}));
  return by_name;
}

// Checks the values. Takes out those that have their places; the accumulators', which may have other sizes, are
// returned.
std::vector<Accumulator::State> Pipeline::take_state(std::map<std::string, Tensor>& values) const {
  for (const auto& variable : lasting_variables()) {
    const auto given = values.extract(variable.name());
    TW_CHECK_USER(!given.empty() && given.mapped().spec() == variable.spec(), "set_state",
                  "the state belongs to another model, or to an optimizer with other options",
                  "expected {} {} for \"{}\", got {}", variable.shape(), variable.dtype(), variable.name(),
                  given.empty() ? "nothing" : fmt::format("{} {}", given.mapped().shape(), given.mapped().dtype()));
  }
  std::vector<Accumulator::State> accumulated;
  for (const auto& entry : entries_) accumulated.push_back(entry.accumulator.take_state(values));
  if (!entries_.empty()) check_restored(values);
  return accumulated;
}

void Pipeline::set_state(const std::map<std::string, Tensor>& values) {
  const std::lock_guard lock(mutex_);
  state();  // names are unique
  auto left = values;
  const auto accumulated = take_state(left);
  for (auto variable : lasting_variables()) variable.assign(values.at(variable.name()));
  for (std::size_t i = 0; i < entries_.size(); ++i)
    entries_[i].accumulator.set_state(accumulated[i], calls_, roomless_);
  pending_ = std::move(left);
  // An optimizer that was saved before its first apply() had no state of variables: that begins here, too.
  restored_ = entries_.empty() && (!pending_.empty() || iterations_ > 0);
}

void Pipeline::check_state(std::map<std::string, Tensor> values) const {
  const std::lock_guard lock(mutex_);
  take_state(values);
}

// After the state is made nothing may be left.
void Pipeline::check_restored(const std::map<std::string, Tensor>& left) const {
  TW_CHECK_USER(left.empty(), "set_state", "the state belongs to another model, or to an optimizer with other options",
                "expected state of optimizer \"{}\", got \"{}\", which it does not have", name_, left.begin()->first);
}

Pipeline::Entry Pipeline::make_entry(const Variable& variable) {
  Entry entry{.tables = {variable}, .accumulator = {}, .decay = {}};
  const std::string prefix = variable.name() + "/";
  const DType dtype = variable.dtype();
  for (const auto& slot : rule_->slots(variable))
    entry.tables.push_back(make_state(prefix + slot.name, slot.shape, slot.initial, dtype));
  if (options_.ema_momentum) {
    entry.tables.push_back(make_state(prefix + "average", variable.shape(), 0, dtype));
    const TraceScope eager(nullptr);
    if (!restored_) entry.tables.back().assign(variable);
  }
  if (options_.accumulate_steps > 1) {
    entry.accumulator = Accumulator(name_ + "/" + prefix, variable, options_.accumulate_steps);
    entry.accumulator.set_state(entry.accumulator.take_state(pending_), calls_, roomless_);
  }
  const auto decay = rule_->weight_decay(variable, options_.weight_decay);
  if (decay && *decay > 0 && !matches(undecayed_, variable.name())) entry.decay = decay;
  return entry;
}

void Pipeline::build(const std::vector<Variable>& variables) {
  const std::lock_guard lock(mutex_);
  const auto known = [&](const Variable& variable) { return places_.contains(variable.id()); };
  if (!entries_.empty() && std::all_of(variables.begin(), variables.end(), known)) return;
  TW_CHECK(failed_precondition, entries_.empty(), name_.c_str(), "make a new optimizer for other variables",
           "expected an optimizer without state, got one for {} variables", entries_.size());
  const PauseRecording pause;
  std::vector<Entry> entries;
  std::unordered_map<std::uint64_t, std::size_t> places;
  const auto given = pending_;
  try {
    for (const auto& variable : variables)
      if (places.emplace(variable.id(), entries.size()).second) entries.push_back(make_entry(variable));
    check_restored(pending_);
  } catch (...) {
    pending_ = given;  // for the variables that it is of
    throw;
  }
  entries_ = std::move(entries), places_ = std::move(places);
}

std::vector<Variable> Pipeline::lasting_variables() const {
  std::vector<Variable> list{iterations_};
  const auto add = [&](const Variable& variable) {
    if (variable.defined()) list.push_back(variable);
  };
  add(rate_), add(calls_), add(weight_);
  for (const auto& variable : rule_->shared()) add(variable);
  for (const auto& entry : entries_)
    for (std::size_t i = 1; i < entry.tables.size(); ++i) add(entry.tables[i]);
  return list;
}

std::vector<Variable> Pipeline::variables() const {
  const std::lock_guard lock(mutex_);
  auto list = lasting_variables();
  for (const auto& entry : entries_)
    for (const auto& variable : entry.accumulator.variables()) list.push_back(variable);
  return list;
}

// In a trace: the condition, of which what is traced then holds a variable as long as gradients that come later may get
// room that it does not know.
Tensor Pipeline::until_room(const Tensor& condition) {
  const bool has_room =
      std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.accumulator.in_use(); });
  if (!tracer() || (has_room && !entries_.empty())) return condition;
  if (!roomless_.defined()) {
    const TraceScope eager(nullptr);
    roomless_ = Variable(scalar(true, boolean), {.name = name_ + "/roomless", .trainable = false});
  }
  return condition & roomless_;
}

void Pipeline::trim() {
  const std::lock_guard lock(mutex_);
  for (auto& entry : entries_) entry.accumulator.trim(calls_);
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
          const double rate = host(iterations);
          check_rate("learning_rate", rate);
          return rate;
        },
        f64);
  return rate_;
}

void Pipeline::set_learning_rate(double rate) {
  TW_CHECK(failed_precondition, rate_.defined(), "set_learning_rate",
           "make the optimizer with a number, or change what the schedule computes",
           "expected a learning rate that is a number, got a schedule");
  check_rate("set_learning_rate", rate);
  rate_.assign(scalar(rate, f64));
}

void Pipeline::assign_averages() {
  TW_CHECK(failed_precondition, options_.ema_momentum.has_value(), "assign_averages",
           "make the optimizer with {.ema_momentum = 0.99}",
           "expected an optimizer that averages, got one that does not");
  const PauseRecording pause;
  for (auto& entry : entries_) {
    entry.variable().assign(entry.tables.back());
    hold_mask(entry);  // which may have fewer elements than at the last update
  }
}

void check_part(const char* optimizer, const char* option, double value) {
  TW_CHECK_USER(value >= 0 && value <= 1, optimizer, "0.9 is usual", "expected {} between 0 and 1, got {}", option,
                value);
}

void check_beta(const char* optimizer, const char* option, double value) {
  check_part(optimizer, option, value);
  TW_CHECK_USER(value < 1, optimizer, "0.9 and 0.999 are usual", "expected {} below 1, got {}", option, value);
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
