#include "thalweg/core/check.h"
#include "thalweg/losses/reduction.h"
#include "thalweg/metrics/confusion.h"
#include "thalweg/metrics/weights.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/cumulative/cumulative.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/segment/segment.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg::metrics {
namespace {

// A list without its last, and without its first.
Tensor left(const Tensor& x) { return slice(x, {0}, {x.size() - 1}); }
Tensor right(const Tensor& x) { return slice(x, {1}, {x.size() - 1}); }

Tensor height(const Tensor& y, Summation summation) {
  if (summation == Summation::minoring) return minimum(left(y), right(y));
  if (summation == Summation::majoring) return maximum(left(y), right(y));
  return (left(y) + right(y)) / 2;
}

// Between two thresholds true positives are taken as linear in all positives, which makes precision a hyperbola.
Tensor interpolated_precision_area(const Tensor& tp, const Tensor& fp, const Tensor& wanted) {
  const Tensor all = tp + fp, steps = left(tp) - right(tp);
  const Tensor slope = divide_no_nan(steps, maximum(left(all) - right(all), 0));
  const Tensor start = right(tp) - slope * right(all);
  const Tensor ratio = where((left(all) > 0) & (right(all) > 0), divide_no_nan(left(all), right(all)), 1);
  return reduce_sum(divide_no_nan(slope * (steps + start * log(ratio)), wanted));
}

}  // namespace

AUC::AUC(const AUCOptions& options) : Metric(name_or(options.name, "auc")), options_(options) {
  TW_CHECK_USER(options.num_thresholds >= 2, name().c_str(), "200 is usual",
                "expected .num_thresholds of 2 or more, got {}", options.num_thresholds);
  positives_ = add_state("positives", {options.num_thresholds});
  negatives_ = add_state("negatives", {options.num_thresholds});
}

void AUC::add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
  const auto [truth, scores] = losses::pair_of(y_true, y_pred);
  TW_CHECK_USER(truth.shape() == scores.shape(), name().c_str(), "labels are 0 or 1 for every prediction",
                "expected labels and predictions of one shape, got {} and {}", truth.shape(), scores.shape());
  const Tensor weights = flat_weights(name(), scores.shape(), weight);
  const Tensor probability = clip_by_value(flat(options_.from_logits ? sigmoid(scores) : scores), 0, 1);
  // The last threshold, of n evenly spaced ones, that the prediction is above; 0 counts as above the first.
  const auto last = static_cast<double>(options_.num_thresholds - 1);
  const Tensor interval = cast(maximum(ceil(probability * last) - 1, 0), i64);
  const Tensor wanted = cast(flat(truth) != 0, f64);
  const auto count = [&](Variable& sum, const Tensor& which) {
    sum.assign_add(unsorted_segment_sum(which * weights, interval, options_.num_thresholds));
  };
  count(positives_, wanted);
  count(negatives_, 1 - wanted);
}

Tensor AUC::compute() const {
  const Tensor tp = cumsum(positives_, {.reverse = true}), fp = cumsum(negatives_, {.reverse = true});
  const Tensor wanted = reduce_sum(positives_);
  const bool precision = options_.curve == Curve::pr;
  if (precision && options_.summation == Summation::interpolation) return interpolated_precision_area(tp, fp, wanted);
  const Tensor recall = divide_no_nan(tp, wanted);
  const Tensor x = precision ? recall : divide_no_nan(fp, reduce_sum(negatives_));
  const Tensor y = precision ? divide_no_nan(tp, tp + fp) : recall;
  return reduce_sum((left(x) - right(x)) * height(y, options_.summation));
}

}  // namespace thalweg::metrics
