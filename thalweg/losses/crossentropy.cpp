#include "thalweg/core/caller.h"
#include "thalweg/core/check.h"
#include "thalweg/losses/reduction.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/cross_entropy/cross_entropy.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/softmax/softmax.h"

namespace thalweg::losses {
namespace {

void check_smoothing(const char* loss, double smoothing) {
  TW_CHECK_USER(smoothing >= 0 && smoothing <= 1, loss, "0.1 is usual", "expected .label_smoothing from 0 to 1, got {}",
                smoothing);
}

// Labels of which a part is spread evenly over the classes.
Tensor smoothed(const Tensor& labels, double smoothing, std::int64_t classes) {
  return smoothing == 0 ? labels : labels * (1 - smoothing) + smoothing / static_cast<double>(classes);
}

std::int64_t classes_of(const char* loss, const Pair& pair) {
  const Shape& shape = pair.prediction.shape();
  TW_CHECK_USER(shape.rank() >= 1 && pair.truth.shape() == shape, loss,
                "labels that are numbers of classes go to sparse_categorical_crossentropy",
                "expected y_true and y_pred of one shape with the classes last, got {} and {}", pair.truth.shape(),
                shape);
  return shape[shape.rank() - 1];
}

// Probabilities kept away from 0 and 1.
Tensor guarded(const Tensor& p) { return clip_by_value(p, epsilon, 1 - epsilon); }

Tensor normalized(const Tensor& p) {
  const Tensor sum = reduce_sum(p, {.axes = -1, .keepdims = true});
  return guarded(p / where(equal(sum, 0), 1, sum));
}

// Cross-entropies of labels of which a part is spread: that part is the mean of those of all classes.
Tensor sparse_values(const Tensor& labels, const Tensor& logits, double smoothing) {
  const Tensor right = sparse_softmax_cross_entropy(labels, logits);
  if (smoothing == 0) return right;
  const Tensor spread = logsumexp(logits, {.axes = -1}) - reduce_mean(logits, {.axes = -1});
  return (1 - smoothing) * right + smoothing * spread;
}

Tensor binary_from_probabilities(const Tensor& y, const Tensor& probability) {
  const Tensor p = guarded(probability);
  return -(y * log(p) + (1 - y) * log(1 - p));
}

}  // namespace

Tensor binary_crossentropy(const Tensor& y_true, const Tensor& y_pred, const CrossentropyOptions& options) {
  const CallerScope here("binary_crossentropy");
  check_smoothing("binary_crossentropy", options.label_smoothing);
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Tensor y = smoothed(truth, options.label_smoothing, 2);
  const Tensor values =
      options.from_logits ? sigmoid_cross_entropy(y, prediction) : binary_from_probabilities(y, prediction);
  return reduced("binary_crossentropy", mean_over_last(values), options);
}

Tensor binary_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                 const BinaryFocalCrossentropyOptions& options) {
  const CallerScope here("binary_focal_crossentropy");
  check_smoothing("binary_focal_crossentropy", options.label_smoothing);
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Tensor y = smoothed(truth, options.label_smoothing, 2);
  const Tensor p = options.from_logits ? sigmoid(prediction) : prediction;
  const Tensor right = y * p + (1 - y) * (1 - p);  // the probability of the right answer
  Tensor values = pow(1 - right, options.gamma) * binary_from_probabilities(y, p);
  if (options.apply_class_balancing) values = values * (y * options.alpha + (1 - y) * (1 - options.alpha));
  return reduced("binary_focal_crossentropy", mean_over_last(values), options);
}

Tensor categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred, const CrossentropyOptions& options) {
  const CallerScope here("categorical_crossentropy");
  check_smoothing("categorical_crossentropy", options.label_smoothing);
  const Pair pair = pair_of(y_true, y_pred);
  const Tensor y = smoothed(pair.truth, options.label_smoothing, classes_of("categorical_crossentropy", pair));
  const Tensor values = options.from_logits ? softmax_cross_entropy(y, pair.prediction)
                                            : -reduce_sum(y * log(normalized(pair.prediction)), {.axes = -1});
  return reduced("categorical_crossentropy", values, options);
}

Tensor categorical_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                      const CategoricalFocalCrossentropyOptions& options) {
  const CallerScope here("categorical_focal_crossentropy");
  check_smoothing("categorical_focal_crossentropy", options.label_smoothing);
  const Pair pair = pair_of(y_true, y_pred);
  const Tensor y = smoothed(pair.truth, options.label_smoothing, classes_of("categorical_focal_crossentropy", pair));
  const Tensor p = normalized(options.from_logits ? softmax(pair.prediction) : pair.prediction);
  const Tensor values = options.alpha * pow(1 - p, options.gamma) * -(y * log(p));
  return reduced("categorical_focal_crossentropy", reduce_sum(values, {.axes = -1}), options);
}

Tensor sparse_categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                       const SparseCategoricalCrossentropyOptions& options) {
  const CallerScope here("sparse_categorical_crossentropy");
  check_smoothing("sparse_categorical_crossentropy", options.label_smoothing);
  const Tensor prediction = prediction_of(y_pred);
  Tensor labels = is_float(y_true.dtype()) || y_true.dtype() == u8 ? class_numbers(y_true) : y_true;
  if (labels.rank() == prediction.rank() && labels.rank() > 0 && labels.shape()[labels.rank() - 1] == 1)
    labels = reshape(labels, labels.shape().prefix(labels.rank() - 1));
  const Tensor logits = options.from_logits ? prediction : log(guarded(prediction));
  LossOptions rest{options.sample_weight, options.mask, options.reduction};
  if (!options.ignore_class)
    return reduced("sparse_categorical_crossentropy", sparse_values(labels, logits, options.label_smoothing), rest);

  const Tensor counts = labels != *options.ignore_class;
  const Tensor values = where(counts, sparse_values(where(counts, labels, 0), logits, options.label_smoothing), 0);
  rest.mask =
      rest.mask.defined() ? counts & fitted_mask("sparse_categorical_crossentropy", rest.mask, counts.shape()) : counts;
  return reduced("sparse_categorical_crossentropy", values, rest);
}

}  // namespace thalweg::losses
