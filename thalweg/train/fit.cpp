#include "thalweg/train/fit.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "thalweg/core/check.h"
#include "thalweg/core/log.h"
#include "thalweg/core/memory.h"
#include "thalweg/data/iterator.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/train/interrupt.h"
#include "thalweg/train/not_finite.h"
#include "thalweg/train/place.h"
#include "thalweg/train/step.h"

namespace thalweg::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Of a NaN the sign says nothing, and is not to be told.
double value_of(const Tensor& scalar) {
  const auto value = scalar.item<double>();
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

void add(EpochSums& sums, const StepResult& result, const data::Element& element) {
  const auto examples = static_cast<double>(element[0].shape()[0]);
  sums.loss += value_of(result.loss) * examples;
  sums.examples += examples;
}

void update(const std::vector<metrics::Metric*>& metrics, const Model& model, const data::Element& element,
            const Tensor& predictions) {
  for (auto* metric : metrics) metric->update(element[static_cast<std::size_t>(model.inputs())], predictions);
}

void write_logs(Logs& logs, const std::string& prefix, const EpochSums& sums,
                const std::vector<metrics::Metric*>& metrics) {
  logs.set(prefix + "loss", sums.mean());
  for (const auto* metric : metrics) logs.set(prefix + metric->name(), value_of(metric->result()));
}

// Loss and metrics of an epoch of data into the logs. Gives back what is not finite in the first batch whose loss is
// not.
std::string measure(const BatchFunction& look, const Model& model, data::Iterator iterator,
                    const std::vector<metrics::Metric*>& metrics, const std::string& prefix, Logs& logs) {
  for (auto* metric : metrics) metric->reset();
  EpochSums sums;
  std::string broken;
  for (std::int64_t number = 0; const auto element = iterator.next(); ++number) {
    const StepResult result = look(*element);
    const bool finite = std::isfinite(sums.loss);
    add(sums, result, *element);
    if (finite && !std::isfinite(sums.loss))
      if (const auto where = not_finite(*element, model.inputs()); !where.empty())
        broken = fmt::format("batch {} of the validation, counted from 0, has {}", number, where);
    update(metrics, model, *element, result.predictions);
  }
  TW_CHECK_USER(sums.examples > 0, "fit", "give data with one batch or more", "expected data to look at, got none");
  write_logs(logs, prefix, sums, metrics);
  return broken;
}

// The first value of the validation that is not finite is worth a warning; training itself may be in good health.
bool warn_of_validation(const Logs& logs, std::int64_t epoch, const std::string& broken) {
  for (const auto& [name, value] : logs) {
    if (!name.starts_with("val_") || std::isfinite(value)) continue;
    warn(fmt::format("fit: {} is {} after epoch {}: {}", name, value, epoch + 1,
                     broken.empty() ? "try a smaller learning rate, or clip the gradients"
                                    : broken + "; mend the data or leave such examples out"));
    return true;
  }
  return false;
}

std::vector<Spec> specs_of(const data::Element& element) {
  std::vector<Spec> specs;
  for (const auto& part : element) specs.push_back(part.spec());
  return specs;
}

void check_ends(const data::Dataset& data) {
  TW_CHECK_USER(data.cardinality() != data::infinite, "fit", "leave repeat() out, or end it: ds.take(100)",
                "expected data to look at that have an end, got data that repeat for ever");
  TW_CHECK_USER(data.cardinality() != 0, "fit", "give data with one batch or more",
                "expected data to look at, got none");
}

// Values are told apart by their names alone.
void check_names(const std::vector<metrics::Metric*>& metrics, bool validates) {
  std::set<std::string> names{"loss"};
  const auto check_new = [&](const std::string& name) {
    TW_CHECK_USER(names.insert(name).second, "fit", "give one of them another name: {.name = \"error_2\"}",
                  "expected metrics of different names, other than \"loss\", got two values named \"{}\"", name);
  };
  for (const auto* metric : metrics) {
    TW_CHECK_USER(metric != nullptr, "fit", "give pointers to metrics that live: {.metrics = {&accuracy}}",
                  "expected a metric, got a null pointer");
    check_new(metric->name());
  }
  if (!validates) return;
  check_new("val_loss");
  for (const auto* metric : metrics) check_new("val_" + metric->name());
}

void check(const data::Dataset& data, const FitOptions& options) {
  check_names(options.metrics, options.validation != nullptr);
  TW_CHECK_USER(options.epochs >= 0 && options.steps >= 0 && options.steps_per_epoch >= 0, "fit",
                "0 for .steps and .steps_per_epoch means no limit",
                "expected .epochs, .steps and .steps_per_epoch of 0 or more, got {}, {} and {}", options.epochs,
                options.steps, options.steps_per_epoch);
  TW_CHECK_USER(options.steps_per_epoch > 0 || options.steps > 0 || data.cardinality() != data::infinite, "fit",
                "say how long an epoch is: {.steps_per_epoch = 100}",
                "expected data with an end, got data that repeat for ever");
  if (options.validation) check_ends(*options.validation);
}

class Loop {
 public:
  Loop(const Model& model, const data::Dataset& data, const FitOptions& options)
      : model_(model),
        data_(data),
        options_(options),
        step_options_(training_step("fit", options, scale_)),
        session_{.model = model.module(), .optimizer = *options.optimizer},
        iterator_(data.iterator()),
        step_("train_step", model, step_options_, options.optimizer),
        look_("validation", model,
              {.loss = options.loss,
               .memory_budget = options.memory_budget,
               .precision = options.precision,
               .predictions = !options.metrics.empty(),
               .eager = options.eager},
              nullptr) {
    session_.epochs = options.epochs, session_.steps = options.steps, session_.inputs = model.inputs();
    session_.epoch_steps =
        options.steps_per_epoch > 0 ? options.steps_per_epoch : std::max<std::int64_t>(0, data.cardinality());
    make_items();
  }

  History run() {
    const InterruptScope interrupts(options_.stop_on_interrupt);
    for (auto* metric : options_.metrics) metric->reset();
    tell(&Callback::on_resume);
    tell(&Callback::on_begin);
    if (place_.restored && place_.epoch_done) next_epoch();
    bool pending = session_.epoch_step > 0;  // read from a checkpoint after the last step of a run, before its end
    for (; session_.epoch < options_.epochs && (pending || !session_.over()); pending = false) run_epoch();
    if (options_.optimizer->averages()) {  // after the last checkpoint
      if (session_.step > 0 && session_.batch == 0) build();
      options_.optimizer->assign_averages();
    }
    tell(&Callback::on_end);
    session_.history.steps = session_.step;
    return std::move(session_.history);
  }

 private:
  void make_items() {
    session_.items = {{"model", &model_.module()},
                      {"optimizer", options_.optimizer},
                      {"data", data_item()},
                      {"fit", place_item(session_, place_, options_.metrics)}};
    if (options_.validation) session_.items.push_back({"validation", validation_item()});
    if (options_.precision == Precision::f16) session_.items.push_back({"scale", &scale_});
    for (std::size_t i = 0; i < options_.callbacks.size(); ++i)
      if (auto state = options_.callbacks[i]->state())
        session_.items.push_back({"callback-" + std::to_string(i), std::move(*state)});
  }

  // The data stand in front of the next batch, also where that could not be made.
  checkpoint::Item data_item() {
    checkpoint::Item item(&iterator_);
    item.save = [this] {
      return checkpoint::ItemState{{}, (failed_at_ ? *failed_at_ : iterator_.save_state()).to_string()};
    };
    return item;
  }

  // Checkpoints of versions that did not keep it are read all the same.
  checkpoint::Item validation_item() {
    checkpoint::Item item(
        "validation",
        [this] {
          return checkpoint::ItemState{
              {}, validated_ ? fmt::format("{} {}", validated_->epoch, validated_->begin.to_string()) : ""};
        },
        [this](const checkpoint::ItemState& state) {
          const data::State all = data::State::from_string(state.text);
          validated_.reset();
          if (!all.integers.empty())
            validated_ = {all.integers.front(), {{all.integers.begin() + 1, all.integers.end()}}};
        });
    item.optional = true;
    return item;
  }

  void tell(void (Callback::*moment)(Session&)) {
    for (const auto& callback : options_.callbacks) ((*callback).*moment)(session_);
  }

  // Starts the next epoch where the data start anew, or go on.
  void next_epoch() {
    ++session_.epoch;
    session_.epoch_step = 0;
    session_.logs = {};
    place_ = {};
    for (auto* metric : options_.metrics) metric->reset();
    if (options_.steps_per_epoch == 0) iterator_.next_epoch();
  }

  void run_epoch() {
    tell(&Callback::on_epoch_begin);
    while (!session_.over() && !epoch_full()) {
      const auto waited = Clock::now();
      const auto element = next_element();
      if (!element) return finish_epoch(true);
      session_.wait_seconds = seconds_since(waited);
      run_step(*element);
    }
    if (!session_.history.interrupted) finish_epoch(epoch_full());
  }

  bool epoch_full() const { return session_.epoch_steps > 0 && session_.epoch_step >= session_.epoch_steps; }

  std::optional<data::Element> next_element() {
    data::State before = iterator_.save_state();
    std::optional<data::Element> element;
    try {
      element = iterator_.next();
      if (!element && options_.steps_per_epoch > 0) {
        iterator_.next_epoch();
        element = iterator_.next();
      }
    } catch (...) {
      failed_at_ = std::move(before);
      end_early();
      throw;
    }
    TW_CHECK_USER(element || session_.step > 0, "fit", "give data with one batch or more",
                  "expected data to train on, got none");
    return element;
  }

  // Damaged data cost no step: callbacks see the end of the run, as after Ctrl-C, before the error goes on.
  void end_early() {
    if (session_.step == 0) return;  // there is nothing that could be lost
    session_.stop("the data cannot be read");
    session_.history.steps = session_.step;
    try {
      settle(false);
      tell(&Callback::on_end);
    } catch (const std::exception& other) {
      warn(fmt::format("fit: the run could not be saved after step {}: {}", session_.step, other.what()));
    }
  }

  void run_step(const data::Element& element) {
    const auto start = Clock::now();
    const std::int64_t held = options_.eager ? held_bytes() : 0;
    if (options_.eager) memory::set_mark();
    const StepResult result = step_(element);
    if (options_.eager) session_.measured_bytes = std::max(session_.measured_bytes, held + memory::high_mark());
    session_.loss = value_of(result.loss);
    session_.step_seconds = seconds_since(start);
    ++session_.step, ++session_.epoch_step;
    session_.batch = element[0].shape()[0];
    add(place_.sums, result, element);
    update(options_.metrics, model_, element, result.predictions);
    note_plan(element, result);
    write_logs(session_.logs, "", place_.sums, options_.metrics);
    note_interrupt();
    session_.element = &element;
    tell(&Callback::on_step_end);
    warn_of_loss();
    session_.element = nullptr;
    settle(false);
  }

  // By variables, in front of a step that is not compiled: the rest of its peak is what it takes itself.
  std::int64_t held_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& variable : model_.module().variables()) bytes += memory::rounded(variable.spec().bytes());
    for (const auto& variable : options_.optimizer->variables()) bytes += memory::rounded(variable.spec().bytes());
    return bytes;
  }

  // Weights seldom recover from it; a callback such as stop_on_nan tells by itself.
  void warn_of_loss() {
    if (warned_ || std::isfinite(session_.loss) || !session_.history.stopped_because.empty()) return;
    warned_ = true;
    const std::string where = session_.not_finite();
    warn(fmt::format("fit: the loss of step {} is {}: {}; train::stop_on_nan() ends such runs", session_.step,
                     session_.loss,
                     where.empty() ? "try a smaller learning rate, or clip the gradients"
                                   : "the data have " + where + ", mend them or leave such examples out"));
  }

  void note_interrupt() {
    session_.history.signal = options_.stop_on_interrupt ? InterruptScope::signal() : 0;
    session_.history.interrupted = session_.history.signal != 0;
  }

  void note_plan(const data::Element& element, const StepResult& result) {
    if (const Plan* plan = step_.plan(element)) {
      if (plan->peak_bytes() > largest_peak_) largest_ = specs_of(element), largest_peak_ = plan->peak_bytes();
      // Asked for at every step, since plans can be evicted.
      session_.plan = plan->peak_bytes() == largest_peak_ ? plan : &step_.plan(largest_);
      session_.measured_bytes = session_.plan->state().measured_peak;
    }
    if (result.norms.defined()) session_.gradient_norms = result.norms.to_vector<double>();
    const std::size_t norms =
        session_.gradient_norms.size();  // fewer than before: a callback froze a part of the model
    if (session_.gradient_names.empty() || (norms > 0 && norms != session_.gradient_names.size())) {
      session_.gradient_names.clear();
      for (const auto& variable : model_.module().trainable_variables())
        session_.gradient_names.push_back(variable.name());
    }
    if (result.norm.defined()) session_.accumulated_norm = result.norm.item<double>();
  }

  // What accumulated gradients are left over at the end of an epoch make an update. A part of an epoch is measured as a
  // whole one is, but a resumed run goes on inside of it.
  void finish_epoch(bool whole) {
    if (session_.epoch_step == 0) return session_.stop("the data gave no batch");
    if (whole && session_.batch == 0) build();
    if (whole) options_.optimizer->flush();
    write_logs(session_.logs, "", place_.sums, options_.metrics);
    if (options_.validation) validate(whole);
    session_.history.epochs.push_back(session_.logs);
    session_.history.steps = session_.step;
    place_.epoch_done = whole;
    note_interrupt();
    tell(&Callback::on_epoch_end);
    if (!whole) return;
    settle(true);
    next_epoch();
  }

  // The next epoch of the validation's data, by whose number they shuffle and draw; in a run that goes on that behind
  // the last one before, unless the data are others now. What follows on a part of an epoch is looked at again.
  data::Iterator validation_epoch(bool whole) {
    data::Iterator iterator = options_.validation->iterator();
    if (validated_ && iterator.epoch() != validated_->epoch + 1) try {
        iterator.restore(validated_->begin);
        iterator.next_epoch();
      } catch (const Error&) {
      }
    if (whole) validated_ = {iterator.epoch(), iterator.save_state()};
    return iterator;
  }

  void validate(bool whole) {
    std::vector<std::pair<Variable, Tensor>> of_training;  // which a run that goes on tells again
    for (const auto* metric : options_.metrics)
      for (const auto& variable : metric->variables()) of_training.emplace_back(variable, variable.value());
    const auto before = validated_;
    std::string broken;
    try {
      broken = measure(look_, model_, validation_epoch(whole), options_.metrics, "val_", session_.logs);
    } catch (...) {
      for (auto& [variable, value] : of_training) variable.assign(value);
      validated_ = before;
      end_early();
      throw;
    }
    if (warned_ || !session_.history.stopped_because.empty()) return;  // it has been told what is wrong
    warned_ = warn_of_validation(session_.logs, session_.epoch, broken);
  }

  // Of a run that was read from a checkpoint after its last step weights and what the optimizer holds wait for
  // variables. The run that was not cut had them without another call: random ops go on as there.
  void build() {
    const random::State numbers = random::state();
    if (const auto element = data_.iterator().next()) look_(*element);
    options_.optimizer->build(model_.module().trainable_variables());
    random::set_state(numbers);
  }

  void settle(bool epoch) {
    for (const auto& callback : options_.callbacks) callback->on_settled(session_, epoch);
  }

  const Model model_;
  const data::Dataset& data_;
  const FitOptions& options_;
  LossScale scale_;  // in use where the precision is f16
  const StepOptions step_options_;
  Session session_;
  Place place_;
  data::Iterator iterator_;
  std::optional<data::State> failed_at_;  // in front of a batch that could not be made
  struct Validated {
    std::int64_t epoch;  // of the data
    data::State begin;
  };
  std::optional<Validated> validated_;  // the last time
  const BatchFunction step_, look_;
  std::vector<Spec> largest_;  // the batch whose plan takes the most
  std::int64_t largest_peak_ = 0;
  bool warned_ = false;  // that the loss or the validation is not finite
};

}  // namespace

void Session::stop(const std::string& reason) { history.stopped_because = reason; }

double Session::gradient_norm() const {
  if (accumulated_norm) return *accumulated_norm;
  double squares = 0;
  for (const double norm : gradient_norms) squares += norm * norm;
  return std::sqrt(squares);
}

Callback::~Callback() = default;

History fit(const Model& model, const data::Dataset& data, const FitOptions& options) {
  check(data, options);
  try {
    return Loop(model, data, options).run();
  } catch (...) {
    end_line();  // of a progress bar: what tells of the error begins its own
    throw;
  }
}

Logs evaluate(const Model& model, const data::Dataset& data, const EvaluateOptions& options) {
  check_names(options.metrics, false);
  check_ends(data);
  const BatchFunction look("evaluate", model,
                           {.loss = options.loss,
                            .memory_budget = options.memory_budget,
                            .precision = options.precision,
                            .predictions = !options.metrics.empty(),
                            .eager = options.eager},
                           nullptr);
  Logs logs;
  measure(look, model, data.iterator(), options.metrics, "", logs);
  return logs;
}

}  // namespace thalweg::train
