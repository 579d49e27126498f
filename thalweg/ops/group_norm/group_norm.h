#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct GroupNorm {
  std::int64_t groups = 32;
  double epsilon = 1e-3;
};
// (x - mean) / sqrt(variance + epsilon) * scale + offset with one mean and biased variance per image and group of
// neighbouring channels.
//   x [batch, spatial…, channels]   scale, offset [channels]   ->   as x
TW_API Tensor group_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const GroupNorm& options = {});

}  // namespace thalweg
