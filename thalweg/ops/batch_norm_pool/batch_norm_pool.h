#pragma once

// A batch norm and the largest values of its windows in one: the normalised values are found anew, not stored. Compiled
// functions make it of max_pool(batch_norm(x).y).
#include "thalweg/core/tensor.h"

namespace thalweg {

struct BatchNormPool {
  double epsilon = 1e-3;
  Ints size = {};  // of the windows, for every spatial axis
};

// Whether windows of this size cover x [batch, spatial…, channels] side by side without a rest, and the kernel knows
// the dtype and so many taps.
bool can_pool_batch_norm(const Spec& x, const Ints& size);

struct BatchNormPoolResult {
  Tensor y, mean, rstd;
};
//   x [batch, spatial…, channels]   scale, offset [channels]   ->   y [batch, places…, channels], mean, rstd [channels]
BatchNormPoolResult batch_norm_pool(const Tensor& x, const Tensor& scale, const Tensor& offset,
                                    const BatchNormPool& options);

struct BatchNormPoolGradients {
  Tensor x, scale, offset;
};
BatchNormPoolGradients batch_norm_pool_backward(const Tensor& x, const Tensor& scale, const Tensor& offset,
                                                const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                                                const BatchNormPool& options);

}  // namespace thalweg
