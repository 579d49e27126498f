#include "thalweg/metrics/confusion.h"

#include "thalweg/core/check.h"
#include "thalweg/losses/reduction.h"
#include "thalweg/metrics/weights.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/one_hot/one_hot.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"
#include "thalweg/ops/sort/sort.h"

namespace thalweg::metrics {
namespace {

ConfusionOptions checked(const std::string& name, ConfusionOptions options) {
  TW_CHECK_USER(!options.top_k || options.thresholds.empty(), name.c_str(), "give one of .thresholds and .top_k",
                "expected no thresholds beside .top_k, got {}", options.thresholds.size());
  TW_CHECK_USER(options.top_k.value_or(1) >= 1, name.c_str(), "the number of yeses in each row",
                "expected .top_k of 1 or more, got {}", *options.top_k);
  for (const double threshold : options.thresholds)
    TW_CHECK_USER(threshold >= 0 && threshold <= 1, name.c_str(), "0.5 is usual",
                  "expected thresholds between 0 and 1, got {}", threshold);
  if (options.thresholds.empty()) options.thresholds = {0.5};
  return options;
}

// True at the k largest of the last axis.
Tensor largest(const Tensor& x, std::int64_t k) {
  const Tensor places = top_k(x, k).indices;
  return reduce_any(one_hot(places, x.shape().last(), {.on_value = true, .off_value = false, .dtype = boolean}),
                    {.axes = -2});
}

Tensor place_of_last(const Tensor& x, std::int64_t place) {
  Ints begin(x.rank(), 0), size(x.rank(), -1);
  begin[x.rank() - 1] = place, size[x.rank() - 1] = 1;
  return squeeze(slice(x, begin, size), {-1});
}

}  // namespace

ConfusionCounts::ConfusionCounts(const std::string& name, const ConfusionOptions& options)
    : Metric(name), options_(checked(name, options)) {
  const Shape shape{static_cast<std::int64_t>(options_.thresholds.size())};
  true_positives_ = add_state("true_positives", shape), false_positives_ = add_state("false_positives", shape);
  false_negatives_ = add_state("false_negatives", shape), true_negatives_ = add_state("true_negatives", shape);
}

void ConfusionCounts::add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
  auto [truth, prediction] = losses::pair_of(y_true, y_pred);
  TW_CHECK_USER(truth.shape() == prediction.shape(), name().c_str(), "labels are 0 or 1 for every prediction",
                "expected labels and predictions of one shape, got {} and {}", truth.shape(), prediction.shape());
  const Tensor thresholds =
      cast(Tensor::from(options_.thresholds, {true_positives_.shape()[0], 1}), prediction.dtype());
  Tensor yes = options_.top_k ? largest(prediction, *options_.top_k) : Tensor();
  if (options_.class_id) {
    TW_CHECK_USER(*options_.class_id >= 0 && *options_.class_id < prediction.shape().last(), name().c_str(),
                  "classes are numbered from 0", "expected .class_id below {}, got {}", prediction.shape().last(),
                  *options_.class_id);
    truth = place_of_last(truth, *options_.class_id), prediction = place_of_last(prediction, *options_.class_id);
    if (yes.defined()) yes = place_of_last(yes, *options_.class_id);
  }
  const Tensor weights = flat_weights(name(), prediction.shape(), weight);
  const Tensor wanted = flat(truth) != 0, unwanted = !wanted;
  const Tensor chosen = yes.defined() ? reshape(yes, {1, -1}) : flat(prediction) > thresholds;
  const Tensor denied = !chosen;
  const auto count = [&](Variable& sum, const Tensor& which) {  // which [thresholds, predictions]
    sum.assign_add(reduce_sum(cast(which, f64) * weights, {.axes = 1}));
  };
  count(true_positives_, chosen & wanted), count(false_positives_, chosen & unwanted);
  count(false_negatives_, denied & wanted), count(true_negatives_, denied & unwanted);
}

Tensor ConfusionCounts::shaped(const Tensor& result) const {
  return options_.thresholds.size() == 1 ? reshape(result, {}) : result;
}

TruePositives::TruePositives(const ConfusionOptions& o) : ConfusionCounts(name_or(o.name, "true_positives"), o) {}
TrueNegatives::TrueNegatives(const ConfusionOptions& o) : ConfusionCounts(name_or(o.name, "true_negatives"), o) {}
FalsePositives::FalsePositives(const ConfusionOptions& o) : ConfusionCounts(name_or(o.name, "false_positives"), o) {}
FalseNegatives::FalseNegatives(const ConfusionOptions& o) : ConfusionCounts(name_or(o.name, "false_negatives"), o) {}
Precision::Precision(const ConfusionOptions& o) : ConfusionCounts(name_or(o.name, "precision"), o) {}
Recall::Recall(const ConfusionOptions& o) : ConfusionCounts(name_or(o.name, "recall"), o) {}

Tensor TruePositives::compute() const { return shaped(true_positives_); }
Tensor TrueNegatives::compute() const { return shaped(true_negatives_); }
Tensor FalsePositives::compute() const { return shaped(false_positives_); }
Tensor FalseNegatives::compute() const { return shaped(false_negatives_); }
Tensor Precision::compute() const { return shaped(divide_no_nan(true_positives_, true_positives_ + false_positives_)); }
Tensor Recall::compute() const { return shaped(divide_no_nan(true_positives_, true_positives_ + false_negatives_)); }

FBeta::FBeta(const FBetaOptions& options) : Metric(name_or(options.name, "fbeta")), options_(options) {
  TW_CHECK_USER(options.beta > 0, name().c_str(), "1 weighs precision and recall alike",
                "expected .beta above 0, got {}", options.beta);
}

F1::F1(const F1Options& options)
    : FBeta({.beta = 1,
             .average = options.average,
             .threshold = options.threshold,
             .name = name_or(options.name, "f1")}) {}

void FBeta::make_state(const Shape& classes) {
  if (right_.defined()) return;
  right_ = add_state("right", classes), chosen_ = add_state("chosen", classes), wanted_ = add_state("wanted", classes);
}

void FBeta::add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
  const auto [truth, prediction] = losses::pair_of(y_true, y_pred);
  TW_CHECK_USER(truth.rank() == 2 && truth.shape() == prediction.shape(), name().c_str(),
                "labels are one-hot, or 0 and 1 for every class",
                "expected labels and predictions of one shape [examples, classes], got {} and {}", truth.shape(),
                prediction.shape());
  make_state({truth.shape()[1]});
  const Tensor highest = reduce_max(prediction, {.axes = -1, .keepdims = true});
  const Tensor yes =
      cast(options_.threshold ? prediction > *options_.threshold : (prediction >= highest) & (prediction != 0), f64);
  const Tensor wanted = cast(truth, f64);
  const Tensor weights = reshape(flat_weights(name(), truth.shape().prefix(1), weight), {-1, 1});
  const auto total = [&](const Tensor& x) { return reduce_sum(x * weights, {.axes = 0}); };
  right_.assign_add(total(yes * wanted));
  chosen_.assign_add(total(yes));
  wanted_.assign_add(total(wanted));
}

Tensor FBeta::compute() const {
  if (!right_.defined()) return scalar(0, f64);
  const bool together = options_.average == Average::micro;
  const auto counts = [&](const Variable& variable) { return together ? reduce_sum(variable) : variable.value(); };
  const Tensor right = counts(right_), wanted = counts(wanted_);
  const Tensor precision = divide_no_nan(right, counts(chosen_)), recall = divide_no_nan(right, wanted);
  const double square = options_.beta * options_.beta;
  Tensor score = divide_no_nan((1 + square) * precision * recall, square * precision + recall);
  if (options_.average == Average::macro) return reduce_mean(score);
  if (options_.average == Average::weighted) return divide_no_nan(reduce_sum(score * wanted), reduce_sum(wanted));
  return score;
}

}  // namespace thalweg::metrics
