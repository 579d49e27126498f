#include "thalweg/nn/norms.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/group_norm/group_norm.h"
#include "thalweg/ops/layer_norm/layer_norm.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg::nn {
namespace {

Tensor value_or_ones(const Variable& gamma, const Shape& shape, DType dtype) {
  return gamma.defined() ? gamma.value() : ones(shape, dtype);
}
Tensor value_or_zeros(const Variable& beta, const Shape& shape, DType dtype) {
  return beta.defined() ? beta.value() : zeros(shape, dtype);
}

}  // namespace

void LayerNorm::build(const Spec& x) {
  const DType dtype = weight_dtype(x);
  const Ints axes = options_.axes.resolve("layer_norm", x.rank());
  TW_CHECK_USER(!axes.empty(), "layer_norm", "name the axes to be normalized: {.axes = -1}",
                "expected one axis or more, got none");
  Ints sizes, order;
  for (const auto axis : axes) sizes.push_back(x.shape[static_cast<int>(axis)]);
  sizes_ = Shape(sizes);
  if (options_.scale)
    gamma_ = add_variable("gamma", sizes_, options_.gamma_initializer,
                          {.dtype = dtype, .regularizer = options_.gamma_regularizer});
  if (options_.center)
    beta_ = add_variable("beta", sizes_, options_.beta_initializer,
                         {.dtype = dtype, .regularizer = options_.beta_regularizer});
  if (axes[0] == x.rank() - axes.size()) return;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (!axes.contains(axis)) to_last_.push_back(axis);
  for (const auto axis : axes) to_last_.push_back(axis);
  to_back_ = to_last_;
  for (int i = 0; i < x.rank(); ++i) to_back_[static_cast<int>(to_last_[i])] = i;
}

Tensor LayerNorm::call(const Tensor& x) {
  const DType dtype = x.dtype() == f64 ? f64 : f32;
  const Tensor gamma = value_or_ones(gamma_, sizes_, dtype), beta = value_or_zeros(beta_, sizes_, dtype);
  if (to_last_.empty()) return cast(layer_norm(x, gamma, beta, {.epsilon = options_.epsilon}), x.dtype());
  const Tensor y = layer_norm(transpose(x, to_last_), gamma, beta, {.epsilon = options_.epsilon});
  return cast(transpose(y, to_back_), x.dtype());
}

void RMSNorm::build(const Spec& x) {
  TW_CHECK_USER(x.rank() >= 1, "rms_norm", "tw::expand_dims(x, 0) makes a batch of one example",
                "expected an input of rank 1 or more, got {}", x.shape);
  scale_ = add_variable("scale", {x.shape.last()}, options_.scale_initializer, {.dtype = weight_dtype(x)});
}

Tensor RMSNorm::call(const Tensor& x) { return cast(rms_norm(x, scale_, {.epsilon = options_.epsilon}), x.dtype()); }

void GroupNorm::build(const Spec& x) {
  TW_CHECK_USER(x.rank() >= 2, "group_norm", "the input is [batch, spatial…, channels]",
                "expected an input of rank 2 or more, got {}", x.shape);
  const WeightOptions options{.dtype = weight_dtype(x)};
  const Shape channels{x.shape.last()};
  if (options_.scale) gamma_ = add_variable("gamma", channels, options_.gamma_initializer, options);
  if (options_.center) beta_ = add_variable("beta", channels, options_.beta_initializer, options);
}

Tensor GroupNorm::call(const Tensor& x) {
  const Shape channels = x.rank() > 0 ? Shape{x.shape().last()} : Shape{};  // the op refuses a scalar
  const DType dtype = x.dtype() == f64 ? f64 : f32;
  const Tensor y = group_norm(x, value_or_ones(gamma_, channels, dtype), value_or_zeros(beta_, channels, dtype),
                              {.groups = options_.groups, .epsilon = options_.epsilon});
  return cast(y, x.dtype());
}

Tensor UnitNorm::call(const Tensor& x) { return l2_normalize(x, {.axes = options_.axes}); }

}  // namespace thalweg::nn
