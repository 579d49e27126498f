#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct BatchNormGradients {
  Tensor x, scale, offset;
};
// From the gradient of y alone, in f32 or f64: x, dy [..., channels], the rest [channels].
BatchNormGradients batch_norm_backward(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                                       const Tensor& dy, double epsilon);

}  // namespace thalweg
