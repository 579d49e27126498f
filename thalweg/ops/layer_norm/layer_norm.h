#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct LayerNorm {
  double epsilon = 1e-3;
};
// (x - mean) / sqrt(variance + epsilon) * scale + offset, with the mean and the biased variance of the axes that scale
// has: usually the last one, or the last few.
//   x [..., d…]   scale, offset [d…]   ->   [..., d…]
TW_API Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const LayerNorm& options = {});

struct RmsNorm {
  double epsilon = 1e-6;
};
// x / sqrt(mean(x^2) + epsilon) * scale over the axes that scale has.
//   x [..., d…]   scale [d…]   ->   [..., d…]
TW_API Tensor rms_norm(const Tensor& x, const Tensor& scale, const RmsNorm& options = {});

}  // namespace thalweg
