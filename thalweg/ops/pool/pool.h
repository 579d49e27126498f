#pragma once

#include "thalweg/core/tensor.h"
#include "thalweg/ops/padding.h"

namespace thalweg {

// One entry per spatial axis, or one for all. No strides: the size.
struct Pool {
  Ints size = {2};
  Ints strides = {};
  Padding padding = valid;
};

// The largest (or the mean) of every window of x [batch, spatial…, channels] with 1 to 3 spatial axes. Padding is never
// seen: it neither wins a maximum nor counts in a mean. A NaN wins; the gradient of equal values goes to the first.
TW_API Tensor max_pool(const Tensor& x, const Pool& options = {});
TW_API Tensor avg_pool(const Tensor& x, const Pool& options = {});

}  // namespace thalweg
