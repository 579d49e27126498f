#include "thalweg/nn/batch_norm.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/nn/training.h"
#include "thalweg/ops/batch_norm/batch_norm.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg::nn {
namespace {

void check_mask(const Tensor& mask, const Shape& x) {
  const Shape places = x.prefix(std::max(x.rank() - 1, 0));
  TW_CHECK_USER(mask.dtype() == boolean && mask.shape() == places, "batch_norm", "true: the place counts",
                "expected a boolean mask {}, got {} {}", places, mask.shape(), mask.dtype());
}

struct MaskedStatistics {
  Tensor mean, variance;  // [channels], zero where nothing counts
  Tensor any;             // whether something does
};

MaskedStatistics masked_statistics(const Tensor& x, const Tensor& mask) {
  const Tensor kept = expand_dims(mask, -1), count = reduce_sum(cast(mask, x.dtype()));
  Ints axes;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) axes.push_back(axis);
  const auto mean_of = [&](const Tensor& values) {
    return divide_no_nan(reduce_sum(where(kept, values, 0), {.axes = axes}), count);
  };
  const Tensor mean = mean_of(x);
  return {mean, mean_of(square(x - mean)), count > 0};
}

}  // namespace

void BatchNorm::build(const Spec& x) {
  TW_CHECK_USER(x.rank() >= 2, "batch_norm", "the input is [batch, …, channels]",
                "expected an input of rank 2 or more, got {}", x.shape);
  TW_CHECK_USER(options_.epsilon >= 0, "batch_norm", "1e-3 is usual", "expected .epsilon of 0 or more, got {}",
                options_.epsilon);
  TW_CHECK_USER(options_.momentum >= 0 && options_.momentum <= 1, "batch_norm", "0.99 is usual",
                "expected .momentum between 0 and 1, got {}", options_.momentum);
  const DType dtype = weight_dtype(x);
  const Shape channels{x.shape.last()};
  if (options_.scale)
    gamma_ = add_variable("gamma", channels, options_.gamma_initializer,
                          {.dtype = dtype, .regularizer = options_.gamma_regularizer});
  if (options_.center)
    beta_ = add_variable("beta", channels, options_.beta_initializer,
                         {.dtype = dtype, .regularizer = options_.beta_regularizer});
  const WeightOptions moving{.dtype = dtype, .trainable = false};
  moving_mean_ = add_variable("moving_mean", channels, initializers::zeros, moving);
  moving_variance_ = add_variable("moving_variance", channels, initializers::ones, moving);
}

void BatchNorm::follow(const Tensor& mean, const Tensor& variance) {
  const PauseRecording unseen;
  const double momentum = options_.momentum;
  for (auto [moving, batch] : {std::pair{&moving_mean_, &mean}, std::pair{&moving_variance_, &variance}})
    moving->assign(*moving * momentum + cast(*batch, moving->dtype()) * (1 - momentum));
}

Tensor BatchNorm::call(const Tensor& x) { return compute(x, {}); }

Tensor BatchNorm::operator()(const Tensor& x, const BatchNormCall& call) {
  const Call running(*this);
  build_once([&] { build(x.spec()); });
  Tensor y = compute(x, call.mask);
  note_output(y.shape());
  return y;
}

Tensor BatchNorm::normalized(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& gamma,
                             const Tensor& beta) const {
  const Tensor factor = gamma * rsqrt(variance + options_.epsilon);
  return cast(x * factor + (beta - mean * factor), x.dtype());
}

// Statistics are those of the weights' dtype, for 16-bit inputs too.
Tensor BatchNorm::compute(const Tensor& x, const Tensor& mask) {
  check_floats(x.spec());
  if (mask.defined()) check_mask(mask, x.shape());
  const Shape& channels = moving_mean_.shape();
  const DType dtype = moving_mean_.dtype();
  const Tensor gamma = options_.scale ? gamma_.value() : ones(channels, dtype);
  const Tensor beta = options_.center ? beta_.value() : zeros(channels, dtype);
  const bool trains = is_training() && trainable();
  if (trains && !mask.defined()) {
    const auto [y, mean, variance] = batch_norm(x, gamma, beta, {.epsilon = options_.epsilon});
    follow(mean, variance);
    return cast(y, x.dtype());
  }
  check_fits("batch_norm", channels, x.shape());
  if (!trains) return normalized(x, moving_mean_, moving_variance_, gamma, beta);
  const auto [mean, variance, any] = masked_statistics(cast(x, dtype), mask);
  follow(where(any, mean, moving_mean_), where(any, variance, moving_variance_));
  return normalized(x, mean, variance, gamma, beta);
}

}  // namespace thalweg::nn
