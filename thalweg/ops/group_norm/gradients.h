#pragma once

#include "thalweg/ops/group_norm/group_norm.h"

namespace thalweg {

struct GroupNormGradients {
  Tensor x, scale, offset;
};
// In f32 or f64: x, dy [batch, spatial…, channels], scale [channels], mean and rstd [batch, groups].
GroupNormGradients group_norm_backward(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                                       const Tensor& dy, const GroupNorm& options);

}  // namespace thalweg
