#include "thalweg/metrics/metric.h"

#include <algorithm>

#include "thalweg/core/caller.h"
#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/tracer.h"
#include "thalweg/losses/reduction.h"
#include "thalweg/metrics/weights.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/tile/tile.h"

namespace thalweg::metrics {

Tensor flat(const Tensor& x) { return reshape(x, {-1}); }

Tensor flat_weights(const std::string& metric, const Shape& values, const Tensor& weight) {
  if (!weight.defined()) return ones({values.size()}, f64);
  return flat(broadcast_to(losses::fitted_weights(metric.c_str(), "weight", cast(weight, f64), values), values));
}

Statistic::Statistic(std::string name) : name_(std::move(name)), living_("metric " + name_) {}
Statistic::~Statistic() = default;

Variable Statistic::add_state(const std::string& name, const Shape& shape) {
  const TraceScope eager(nullptr);
  const PauseRecording pause;
  const std::string path = name_ + "/" + name;
  Tensor value = zeros(shape, f64);
  if (const auto given = pending_.extract(path)) {
    TW_CHECK_USER(given.mapped().spec() == value.spec(), "set_state", "the state belongs to data of another kind",
                  "\"{}\": expected {} {}, got {} {}", path, shape, f64, given.mapped().shape(),
                  given.mapped().dtype());
    value = given.mapped();
  }
  return state_.emplace_back(value, VariableOptions{.name = path, .trainable = false});
}

void Statistic::set_state(const std::map<std::string, Tensor>& values) {
  touch();
  const PauseRecording pause;
  pending_ = values;
  for (auto& variable : state_)
    if (const auto given = pending_.extract(variable.name())) variable.assign(given.mapped());
  if (!pending_.empty()) make_state(Shape(pending_.begin()->second.shape()));
}

Tensor Statistic::result() const {
  touch();
  const PauseRecording pause;
  return compute();
}

void Statistic::reset() {
  touch();
  const PauseRecording pause;
  pending_.clear();
  for (auto& variable : state_) variable.assign(zeros(variable.shape(), f64));
}

void Metric::update(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
  touch();
  const CallerScope here(name().c_str());
  const PauseRecording pause;
  add(y_true, y_pred, weight);
}

void RunningMean::add(const std::string& metric, const Tensor& values, const Tensor& weight) {
  const Shape& shape = values.shape();
  const std::int64_t examples = shape.rank() == 0 ? 1 : shape[0];
  const auto each = static_cast<double>(std::max<std::int64_t>(shape.size() / std::max<std::int64_t>(examples, 1), 1));
  const Tensor list = flat(cast(values, f64));
  if (!weight.defined()) {
    total.assign_add(reduce_sum(list) / each);
    count.assign_add(scalar(examples, f64));
    return;
  }
  const Tensor weights = flat_weights(metric, shape, weight);
  total.assign_add(reduce_sum(list * weights) / each);
  count.assign_add(reduce_sum(weights) / each);
}

Tensor RunningMean::value() const { return divide_no_nan(total, count); }

Mean::Mean(const MetricOptions& options)
    : Statistic(name_or(options.name, "mean")), mean_{add_state("total", {}), add_state("count", {})} {}

void Mean::update(const Tensor& values, const Tensor& weight) {
  touch();
  const CallerScope here(name().c_str());
  const PauseRecording pause;
  mean_.add(name(), values, weight);
}

Tensor Mean::compute() const { return mean_.value(); }

Sum::Sum(const MetricOptions& options) : Statistic(name_or(options.name, "sum")), total_(add_state("total", {})) {}

void Sum::update(const Tensor& values, const Tensor& weight) {
  touch();
  const CallerScope here(name().c_str());
  const PauseRecording pause;
  const Tensor list = flat(cast(values, f64));
  total_.assign_add(reduce_sum(weight.defined() ? list * flat_weights(name(), values.shape(), weight) : list));
}

Tensor Sum::compute() const { return total_; }

MeanOf::MeanOf(std::string name, Values values)
    : Metric(std::move(name)), values_(std::move(values)), mean_{add_state("total", {}), add_state("count", {})} {}

void MeanOf::add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
  mean_.add(name(), values_(y_true, y_pred), weight);
}

Tensor MeanOf::compute() const { return mean_.value(); }

}  // namespace thalweg::metrics
