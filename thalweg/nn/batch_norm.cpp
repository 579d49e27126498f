#include "thalweg/nn/batch_norm.h"

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/nn/training.h"
#include "thalweg/ops/batch_norm/batch_norm.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"

namespace thalweg::nn {

void BatchNorm::build(const Spec& x) {
  TW_CHECK_USER(x.rank() >= 2, "batch_norm", "the input is [batch, …, channels]",
                "expected an input of rank 2 or more, got {}", x.shape);
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

void BatchNorm::follow(Variable& moving, const Tensor& batch) const {
  const double momentum = options_.momentum;
  moving.assign(moving * momentum + cast(batch, moving.dtype()) * (1 - momentum));
}

// Statistics are those of the weights' dtype, for 16-bit inputs too.
Tensor BatchNorm::call(const Tensor& x) {
  check_floats(x.spec());
  const Shape& channels = moving_mean_.shape();
  const DType dtype = moving_mean_.dtype();
  const Tensor gamma = options_.scale ? gamma_.value() : ones(channels, dtype);
  const Tensor beta = options_.center ? beta_.value() : zeros(channels, dtype);
  if (is_training() && trainable()) {
    const auto [y, mean, variance] = batch_norm(x, gamma, beta, {.epsilon = options_.epsilon});
    const PauseRecording unseen;
    follow(moving_mean_, mean);
    follow(moving_variance_, variance);
    return cast(y, x.dtype());
  }
  check_fits("batch_norm", channels, x.shape());
  const Tensor factor = gamma * rsqrt(moving_variance_ + options_.epsilon);
  return cast(x * factor + (beta - moving_mean_ * factor), x.dtype());
}

}  // namespace thalweg::nn
