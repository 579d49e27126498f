#include <algorithm>
#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/log.h"
#include "thalweg/ops/ops.h"
#include "thalweg/summary/plot.h"
#include "thalweg/train/search_picture.h"
#include "thalweg/train/step.h"

namespace thalweg::train {
namespace {

// Puts weights, optimizer and random numbers back when it goes.
class Restore {
 public:
  Restore(nn::Module& module, optim::Optimizer& optimizer) : random_(random::state()), optimizer_(optimizer) {
    for (auto& variable : module.variables()) weights_.emplace_back(variable, variable.value());
    for (auto& [name, variable] : optimizer.state()) state_.emplace(name, variable.value());
  }
  ~Restore() {
    for (auto& [variable, value] : weights_) variable.assign(value);
    optimizer_.set_state(state_);
    random::set_state(random_);
  }
  Restore(const Restore&) = delete;

 private:
  std::vector<std::pair<Variable, Tensor>> weights_;
  random::State random_;
  optim::Optimizer& optimizer_;
  std::map<std::string, Tensor> state_;
};

// The rate in the middle of the steepest stretch of the averaged loss before its least value.
double steepest(const std::vector<double>& rates, const std::vector<double>& losses) {
  const auto least = static_cast<std::size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
  const std::size_t reach = std::max<std::size_t>(1, rates.size() / 12);
  double best = 0, suggestion = rates[least] / 10;
  for (std::size_t i = reach; i + reach <= least; ++i) {
    const double fall = losses[i - reach] - losses[i + reach];
    if (fall > best) best = fall, suggestion = rates[i];
  }
  return suggestion;
}

// Whether the averaged loss has left its least value so far behind that larger rates tell nothing. Losses that are
// below 0 have no factor: there it is measured by how far they fell.
bool has_diverged(double now, double least, double first, double factor) {
  if (least > 0) return now > factor * least;
  return now - least > (factor - 1) * std::max(-least, first - least);
}

double rounded(double rate) {  // to two digits
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 1);
  return std::round(rate / unit) * unit;
}

void check(const FindLearningRateOptions& o) {
  TW_CHECK_USER(o.optimizer != nullptr, "find_learning_rate", "give one: {.optimizer = &adam}",
                "expected an optimizer, got none");
  TW_CHECK_USER(o.first > 0 && o.last > o.first && o.steps >= 2, "find_learning_rate",
                "rates grow from .first to .last over .steps",
                "expected 0 < .first < .last and 2 steps or more, got {}, {} and {}", o.first, o.last, o.steps);
  TW_CHECK_USER(o.smoothing >= 0 && o.smoothing < 1, "find_learning_rate", "0.8 is usual",
                "expected .smoothing of 0 or more and below 1, got {}", o.smoothing);
}

data::Element next_of(data::Iterator& iterator) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (auto element = iterator.next()) return std::move(*element);
    iterator.next_epoch();
  }
  TW_FAIL(invalid_argument, "find_learning_rate", "give data with one batch or more",
          "expected data to train on, got none");
}

// Weights and slots, if there are none yet: planning a step makes them.
void make_state(const Model& model, const BatchFunction& step, const FitOptions& options, const data::Element& first) {
  if (step.plan(first)) return;
  BatchFunction("find_learning_rate", model, {.loss = options.loss, .eager = true}, nullptr)(first);
  options.optimizer->build(model.module().trainable_variables());
}

}  // namespace

LearningRateSearch find_learning_rate(const Model& model, const data::Dataset& data,
                                      const FindLearningRateOptions& options) {
  check(options);
  auto& optimizer = *options.optimizer;
  LossScale scale;
  const FitOptions of_step{.optimizer = &optimizer,
                           .loss = options.loss,
                           .memory_budget = options.memory_budget,
                           .precision = options.precision,
                           .eager = options.eager};
  const BatchFunction step("find_learning_rate", model, training_step("find_learning_rate", of_step, scale),
                           &optimizer);
  auto iterator = data.iterator();
  const data::Element first = next_of(iterator);
  make_state(model, step, of_step, first);  // which is then put back
  const Restore restore(model.module(), optimizer);
  LearningRateSearch found;
  double average = 0, weight = 0, least = 0;
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(options.steps - 1);
    const double rate = options.first * std::pow(options.last / options.first, part);
    optimizer.set_learning_rate(rate);
    const double loss = step(i == 0 ? first : next_of(iterator)).loss.item<double>();
    average = options.smoothing * average + (1 - options.smoothing) * loss;
    weight = options.smoothing * weight + (1 - options.smoothing);
    const double now = average / weight;
    if (!std::isfinite(now)) break;
    found.rates.push_back(rate), found.losses.push_back(now);
    least = i == 0 ? now : std::min(least, now);
    if (has_diverged(now, least, found.losses.front(), options.stop_factor) && i > 10) break;
  }
  TW_CHECK(failed_precondition, !found.rates.empty(), "find_learning_rate", "look at the data for values that are NaN",
           "the loss of the first step is not finite");
  found.suggestion = rounded(steepest(found.rates, found.losses));
  if (std::min_element(found.losses.begin(), found.losses.end()) == found.losses.begin())
    warn(
        fmt::format("find_learning_rate: the loss never fell, so that {:.2g} is a guess; search in more steps or among "
                    "smaller rates, and look at the scale of the data",
                    found.suggestion));
  return found;
}

SearchTable LearningRateSearch::table() const {
  SearchTable table{{"learning rate", "loss"}, {}};
  const std::size_t count = std::min<std::size_t>(10, rates.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = count == 1 ? 0 : i * (rates.size() - 1) / (count - 1);
    table.rows.push_back({fmt::format("{:.3g}", rates[at]), fmt::format("{:.5g}", losses[at])});
  }
  table.rows.push_back({fmt::format("{:.3g}", suggestion), "suggested"});
  return table;
}

std::string LearningRateSearch::svg() const {
  return summary::line_plot(
      {{"loss", rates, losses}},
      {.title = "loss while the learning rate grows", .x_label = "learning rate", .log_x = true, .mark_x = suggestion});
}

void LearningRateSearch::write_svg(const std::string& path) const { write_picture(svg(), path); }

}  // namespace thalweg::train
