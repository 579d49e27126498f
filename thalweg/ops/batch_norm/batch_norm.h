#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct BatchNorm {
  double epsilon = 1e-3;
};
struct BatchNormResult {
  Tensor y, mean, variance;
};
// y = (x - mean) / sqrt(variance + epsilon) * scale + offset with the mean and biased variance of every channel over
// all other axes. Differentiable through all three results.
//   x [..., channels]   scale, offset [channels]   ->   y as x, mean and variance [channels]
TW_API BatchNormResult batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset,
                                  const BatchNorm& options = {});

}  // namespace thalweg
