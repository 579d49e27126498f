#pragma once

#include "thalweg/ops/convolution/convolution.h"

namespace thalweg {

// The gradient of a convolution by its kernel.
//   x [batch, spatial…, in]   dy [batch, places…, out]   ->   [taps…, in / groups, out]
Tensor convolution_backward_weights(const Tensor& x, const Tensor& dy, const Ints& taps, const Convolution& options);

}  // namespace thalweg
