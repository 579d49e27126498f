#pragma once

// Reductions. Over no elements: a sum is 0, a product 1, a maximum -inf (integers: the lowest), a minimum +inf, a mean
// NaN (integers: 0), `all` true, `any` false. 16-bit floats are computed in f32 and rounded once.
#include "thalweg/core/tensor.h"
#include "thalweg/ops/axes.h"

namespace thalweg {

// All axes unless some are named; Axes::none() reduces nothing. keepdims leaves reduced axes with size 1.
struct Reduce {
  Axes axes = {};
  bool keepdims = false;
};

TW_API Tensor reduce_sum(const Tensor& x, const Reduce& options = {});   // integers wrap around
TW_API Tensor reduce_mean(const Tensor& x, const Reduce& options = {});  // of integers: truncated, as in TensorFlow
TW_API Tensor reduce_max(const Tensor& x, const Reduce& options = {});  // a NaN wins; equal elements share the gradient
TW_API Tensor reduce_min(const Tensor& x, const Reduce& options = {});
TW_API Tensor reduce_prod(const Tensor& x, const Reduce& options = {});  // its gradient is exact for zeros too
TW_API Tensor reduce_all(const Tensor& x, const Reduce& options = {});   // of booleans
TW_API Tensor reduce_any(const Tensor& x, const Reduce& options = {});

// log(sum(exp(x))) without overflow. Where every x is -inf the result is -inf and the gradient zero.
TW_API Tensor logsumexp(const Tensor& x, const Reduce& options = {});

// Biased: divided by the number of elements. The gradient of the deviation is zero where it is zero.
TW_API Tensor reduce_variance(const Tensor& x, const Reduce& options = {});
TW_API Tensor reduce_std(const Tensor& x, const Reduce& options = {});

struct Moments {
  Tensor mean, variance;
};
TW_API Moments moments(const Tensor& x, const Reduce& options = {});

struct Norm {
  Axes axes = {};
  bool keepdims = false;
  double order = 2;  // above 0; infinity: the largest absolute value
};
// sum(|x|^order)^(1 / order); its gradient at zero is zero.
TW_API Tensor norm(const Tensor& x, const Norm& options = {});

struct L2Normalize {
  Axes axes = {};
  double epsilon = 1e-12;
};
// x / sqrt(max(sum(x^2), epsilon))
TW_API Tensor l2_normalize(const Tensor& x, const L2Normalize& options = {});

}  // namespace thalweg
