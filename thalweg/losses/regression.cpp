#include <cmath>
#include <numbers>

#include "thalweg/core/caller.h"
#include "thalweg/core/check.h"
#include "thalweg/losses/reduction.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"

namespace thalweg::losses {
namespace {

// Labels 0 and 1 as -1 and 1; others are left as they are.
// Others are counted: counts of the parts of a batch add up, which reduce_all does not.
Tensor hinge_labels(const Tensor& y) {
  const Tensor others = reduce_sum(cast((y != 0) & (y != 1), i64));
  return where(others == 0, 2 * y - 1, y);
}

Tensor margin(const Pair& pair) { return maximum(1 - hinge_labels(pair.truth) * pair.prediction, 0); }

// x / |x| along an axis; zero stays zero.
Tensor unit(const Tensor& x, std::int64_t axis) {
  return x * rsqrt(maximum(reduce_sum(square(x), {.axes = axis, .keepdims = true}), epsilon * epsilon));
}

}  // namespace

Tensor mean_squared_error(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("mean_squared_error");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  return reduced("mean_squared_error", mean_over_last(squared_difference(truth, prediction)), options);
}

Tensor mean_absolute_error(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("mean_absolute_error");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  return reduced("mean_absolute_error", mean_over_last(abs(truth - prediction)), options);
}

Tensor mean_absolute_percentage_error(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("mean_absolute_percentage_error");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Tensor share = abs((truth - prediction) / maximum(abs(truth), epsilon));
  return reduced("mean_absolute_percentage_error", 100 * mean_over_last(share), options);
}

Tensor mean_squared_logarithmic_error(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("mean_squared_logarithmic_error");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const auto logarithm = [](const Tensor& x) { return log(maximum(x, epsilon) + 1); };
  return reduced("mean_squared_logarithmic_error",
                 mean_over_last(squared_difference(logarithm(prediction), logarithm(truth))), options);
}

Tensor log_cosh(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("log_cosh");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Tensor x = prediction - truth;
  return reduced("log_cosh", mean_over_last(x + softplus(-2 * x) - std::numbers::ln2), options);
}

Tensor poisson(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("poisson");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  return reduced("poisson", mean_over_last(prediction - truth * log(prediction + epsilon)), options);
}

Tensor huber(const Tensor& y_true, const Tensor& y_pred, const HuberOptions& options) {
  const CallerScope here("huber");
  const double delta = options.delta;
  TW_CHECK_USER(delta > 0, "huber", "errors below .delta are squared", "expected .delta above 0, got {}", delta);
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Tensor error = prediction - truth, size = abs(error);
  const Tensor values = where(size <= delta, 0.5 * square(error), delta * size - 0.5 * delta * delta);
  return reduced("huber", mean_over_last(values), options);
}

Tensor hinge(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("hinge");
  return reduced("hinge", mean_over_last(margin(pair_of(y_true, y_pred))), options);
}

Tensor squared_hinge(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("squared_hinge");
  return reduced("squared_hinge", mean_over_last(square(margin(pair_of(y_true, y_pred)))), options);
}

Tensor categorical_hinge(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("categorical_hinge");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Tensor right = reduce_sum(truth * prediction, {.axes = -1});
  const Tensor wrong = reduce_max((1 - truth) * prediction, {.axes = -1});
  return reduced("categorical_hinge", maximum(wrong - right + 1, 0), options);
}

Tensor kl_divergence(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options) {
  const CallerScope here("kl_divergence");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Tensor p = clip_by_value(truth, epsilon, 1), q = clip_by_value(prediction, epsilon, 1);
  return reduced("kl_divergence", reduce_sum(p * log(p / q), {.axes = -1}), options);
}

Tensor cosine_similarity(const Tensor& y_true, const Tensor& y_pred, const CosineSimilarityOptions& options) {
  const CallerScope here("cosine_similarity");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Tensor products = unit(truth, options.axis) * unit(prediction, options.axis);
  return reduced("cosine_similarity", -reduce_sum(products, {.axes = options.axis}), options);
}

Tensor dice(const Tensor& y_true, const Tensor& y_pred, const DiceOptions& options) {
  const CallerScope here("dice");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Reduce over{.axes = options.axes};
  const Tensor overlap = reduce_sum(truth * prediction, over);
  const Tensor both = reduce_sum(truth, over) + reduce_sum(prediction, over);
  return reduced("dice", 1 - 2 * overlap / (both + epsilon), options);
}

Tensor tversky(const Tensor& y_true, const Tensor& y_pred, const TverskyOptions& options) {
  const CallerScope here("tversky");
  const auto [truth, prediction] = pair_of(y_true, y_pred);
  const Reduce over{.axes = options.axes};
  const Tensor overlap = reduce_sum(truth * prediction, over);
  const Tensor missed = reduce_sum(truth * (1 - prediction), over);
  const Tensor wrong = reduce_sum((1 - truth) * prediction, over);
  return reduced("tversky", 1 - overlap / (overlap + options.alpha * missed + options.beta * wrong + epsilon), options);
}

}  // namespace thalweg::losses
