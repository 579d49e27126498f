#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct LayerNormGradients {
  Tensor x, scale, offset;
};
// All over the last axis, in f32 or f64, x and dy also in 16 bits with the rest in f32: x, dy [..., d], scale [d], mean
// and rstd = 1 / sqrt(variance + epsilon) [...].
LayerNormGradients layer_norm_backward(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                                       const Tensor& dy, double epsilon);

struct RmsNormGradients {
  Tensor x, scale;
};
RmsNormGradients rms_norm_backward(const Tensor& x, const Tensor& scale, const Tensor& rstd, const Tensor& dy,
                                   double epsilon);

}  // namespace thalweg
