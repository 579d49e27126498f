#include "thalweg/metrics/means.h"

#include "thalweg/core/check.h"
#include "thalweg/losses/reduction.h"
#include "thalweg/metrics/weights.h"
#include "thalweg/ops/argreduce/argreduce.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg::metrics {
namespace {

using losses::Pair;
using losses::Reduction;

Tensor part_of(const Tensor& condition) { return cast(condition, f64); }

// Both with an axis of values behind that of the examples.
Pair rows_of(const Tensor& y_true, const Tensor& y_pred) {
  Pair pair = losses::pair_of(y_true, y_pred);
  for (Tensor* side : {&pair.truth, &pair.prediction})
    if (side->rank() == 1) *side = reshape(*side, {-1, 1});
  return pair;
}

// A value for each example by a loss.
template <class Options>
MeanOf::Values loss_values(Tensor (*loss)(const Tensor&, const Tensor&, const Options&), Options options) {
  options.reduction = Reduction::none;
  return [=](const Tensor& y_true, const Tensor& y_pred) {
    const auto [truth, prediction] = rows_of(y_true, y_pred);
    return loss(truth, prediction, options);
  };
}

MeanOf::Values plain_loss_values(Tensor (*loss)(const Tensor&, const Tensor&, const losses::LossOptions&)) {
  return loss_values<losses::LossOptions>(loss, {});
}

// Numbers of classes [...] for predictions [..., classes].
Tensor class_numbers(const char* metric, const Tensor& y_true, const Tensor& y_pred) {
  const Shape leading = y_pred.shape().prefix(std::max(y_pred.rank() - 1, 0));
  const bool fits =
      y_pred.rank() >= 1 && y_true.size() == leading.size() &&
      (y_true.shape() == leading || (y_true.rank() == y_pred.rank() && y_true.shape()[y_true.rank() - 1] == 1));
  TW_CHECK_USER(fits, metric, "labels are numbers of classes; one-hot labels go to the metric without \"sparse\"",
                "expected labels {} for predictions {}, got {}", leading, y_pred.shape(), y_true.shape());
  return losses::class_numbers(reshape(y_true, leading));
}

Tensor chosen_classes(const char* metric, const Tensor& y_true, const Tensor& y_pred) {
  TW_CHECK_USER(y_pred.rank() >= 1 && y_true.shape() == y_pred.shape(), metric,
                "labels that are numbers of classes go to the metric with \"sparse\" in its name",
                "expected labels and predictions of one shape with the classes last, got {} and {}", y_true.shape(),
                y_pred.shape());
  return argmax(y_true, -1);
}

// Fewer than k scores are above that of the right class, as one that is no number is, for argmax too.
Tensor in_top_k(const Tensor& classes, const Tensor& y_pred, std::int64_t k) {
  const Tensor right = gather(y_pred, expand_dims(classes, -1), {.axis = -1, .batch_dims = classes.rank()});
  const Tensor above = reduce_sum(cast(!(y_pred <= right), i64), {.axes = -1});
  return part_of((above < k) & isfinite(reshape(right, classes.shape())));
}

std::int64_t checked_k(const TopKOptions& options) {
  TW_CHECK_USER(options.k >= 1, "top_k", "5 is usual", "expected .k of 1 or more, got {}", options.k);
  return options.k;
}

MeanOf::Values top_k_of_one_hot(std::int64_t k) {
  return [k](const Tensor& y_true, const Tensor& y_pred) {
    return in_top_k(chosen_classes("top_k_categorical_accuracy", y_true, y_pred), y_pred, k);
  };
}

MeanOf::Values top_k_of_numbers(std::int64_t k) {
  return [k](const Tensor& y_true, const Tensor& y_pred) {
    return in_top_k(class_numbers("sparse_top_k_categorical_accuracy", y_true, y_pred), y_pred, k);
  };
}

// Numbers of classes and others that are whole are compared as such: from 2^24 on f32 has not all of them.
Tensor equal_values(const Tensor& y_true, const Tensor& y_pred) {
  if (y_true.shape() == y_pred.shape() && !is_float(y_true.dtype()) && !is_float(y_pred.dtype()))
    return part_of(cast(y_true, i64) == cast(y_pred, i64));
  const bool whole = !is_float(y_true.dtype()) && !is_float(y_pred.dtype());  // of ranks that differ
  const auto [truth, prediction] = losses::pair_of(y_true, whole ? cast(y_pred, f64) : y_pred);
  return part_of(truth == prediction);
}

}  // namespace

Accuracy::Accuracy(const MetricOptions& options) : MeanOf(name_or(options.name, "accuracy"), equal_values) {}

BinaryAccuracy::BinaryAccuracy(const BinaryAccuracyOptions& options)
    : MeanOf(name_or(options.name, "binary_accuracy"),
             [threshold = options.threshold](const Tensor& y_true, const Tensor& y_pred) {
               const auto [truth, prediction] = losses::pair_of(y_true, y_pred);
               return part_of(truth == cast(prediction > threshold, truth.dtype()));
             }) {}

CategoricalAccuracy::CategoricalAccuracy(const MetricOptions& options)
    : MeanOf(name_or(options.name, "categorical_accuracy"), [](const Tensor& y_true, const Tensor& y_pred) {
        return part_of(chosen_classes("categorical_accuracy", y_true, y_pred) == argmax(y_pred, -1));
      }) {}

SparseCategoricalAccuracy::SparseCategoricalAccuracy(const MetricOptions& options)
    : MeanOf(name_or(options.name, "sparse_categorical_accuracy"), [](const Tensor& y_true, const Tensor& y_pred) {
        return part_of(class_numbers("sparse_categorical_accuracy", y_true, y_pred) == argmax(y_pred, -1));
      }) {}

TopKCategoricalAccuracy::TopKCategoricalAccuracy(const TopKOptions& options)
    : MeanOf(name_or(options.name, "top_k_categorical_accuracy"), top_k_of_one_hot(checked_k(options))) {}

SparseTopKCategoricalAccuracy::SparseTopKCategoricalAccuracy(const TopKOptions& options)
    : MeanOf(name_or(options.name, "sparse_top_k_categorical_accuracy"), top_k_of_numbers(checked_k(options))) {}

TopK::TopK(const TopKOptions& options)
    : MeanOf(name_or(options.name, "top_k"),
             [one_hot = top_k_of_one_hot(checked_k(options)), numbers = top_k_of_numbers(options.k)](
                 const Tensor& y_true, const Tensor& y_pred) {
               return (y_true.shape() == y_pred.shape() ? one_hot : numbers)(y_true, y_pred);
             }) {}

MSE::MSE(const MetricOptions& options)
    : MeanOf(name_or(options.name, "mean_squared_error"), plain_loss_values(losses::mean_squared_error)) {}

MAE::MAE(const MetricOptions& options)
    : MeanOf(name_or(options.name, "mean_absolute_error"), plain_loss_values(losses::mean_absolute_error)) {}

MAPE::MAPE(const MetricOptions& options)
    : MeanOf(name_or(options.name, "mean_absolute_percentage_error"),
             plain_loss_values(losses::mean_absolute_percentage_error)) {}

MSLE::MSLE(const MetricOptions& options)
    : MeanOf(name_or(options.name, "mean_squared_logarithmic_error"),
             plain_loss_values(losses::mean_squared_logarithmic_error)) {}

RMSE::RMSE(const MetricOptions& options)
    : MeanOf(name_or(options.name, "root_mean_squared_error"), plain_loss_values(losses::mean_squared_error)) {}

Tensor RMSE::compute() const { return sqrt(MeanOf::compute()); }

CosineSimilarity::CosineSimilarity(const CosineSimilarityOptions& options)
    : MeanOf(name_or(options.name, "cosine_similarity"),
             [axis = options.axis](const Tensor& y_true, const Tensor& y_pred) {
               return -losses::cosine_similarity(y_true, y_pred, {.axis = axis, .reduction = Reduction::none});
             }) {}

BinaryCrossentropy::BinaryCrossentropy(const CrossentropyOptions& options)
    : MeanOf(name_or(options.name, "binary_crossentropy"),
             loss_values<losses::CrossentropyOptions>(
                 losses::binary_crossentropy,
                 {.from_logits = options.from_logits, .label_smoothing = options.label_smoothing})) {}

CategoricalCrossentropy::CategoricalCrossentropy(const CrossentropyOptions& options)
    : MeanOf(name_or(options.name, "categorical_crossentropy"),
             loss_values<losses::CrossentropyOptions>(
                 losses::categorical_crossentropy,
                 {.from_logits = options.from_logits, .label_smoothing = options.label_smoothing})) {}

SparseCategoricalCrossentropy::SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options)
    : MeanOf(name_or(options.name, "sparse_categorical_crossentropy"),
             [logits = options.from_logits](const Tensor& y_true, const Tensor& y_pred) {
               return losses::sparse_categorical_crossentropy(y_true, y_pred,
                                                              {.from_logits = logits, .reduction = Reduction::none});
             }) {}

R2Score::R2Score(const R2ScoreOptions& options)
    : Metric(name_or(options.name, "r2_score")), average_(options.average), count_(add_state("count", {})) {}

void R2Score::make_state(const Shape& outputs) {
  if (mean_.defined()) return;
  mean_ = add_state("mean", outputs), spread_ = add_state("spread", outputs), errors_ = add_state("errors", outputs);
}

// Squares of distances from the mean, not of the labels: of large labels these lose what tells them apart.
void R2Score::add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
  const auto [truth, prediction] = rows_of(y_true, y_pred);
  TW_CHECK_USER(truth.rank() == 2 && truth.shape() == prediction.shape(), "r2_score",
                "flatten what is not [examples, outputs]",
                "expected labels and predictions of one shape [examples, outputs], got {} and {}", truth.shape(),
                prediction.shape());
  make_state({truth.shape()[1]});
  const Tensor t = cast(truth, f64), error = t - cast(prediction, f64);
  const Tensor w = reshape(flat_weights(name(), truth.shape().prefix(1), weight), {-1, 1});
  const auto total = [&](const Tensor& x) { return reduce_sum(x * w, {.axes = 0}); };
  const Tensor added = reduce_sum(w), mean = divide_no_nan(total(t), added);
  const Tensor step = mean - mean_, share = divide_no_nan(added, count_ + added);
  spread_.assign_add(total(square(t - mean)) + square(step) * (count_ * share));
  mean_.assign_add(step * share);
  count_.assign_add(added);
  errors_.assign_add(total(square(error)));
}

// Labels that are all the same differ from their mean by its rounding alone.
Tensor R2Score::compute() const {
  if (!mean_.defined()) return scalar(0, f64);
  const Tensor spread = where(spread_ > count_ * square(1e-14 * mean_), spread_, 0);
  Tensor score = where(spread > 0, 1 - divide_no_nan(errors_, spread), 0);
  if (average_ == R2Average::none) return score;
  if (average_ == R2Average::uniform) return reduce_mean(score);
  return divide_no_nan(reduce_sum(score * spread), reduce_sum(spread));
}

}  // namespace thalweg::metrics
