#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// h[i] = a[i] * h[i - 1] + b[i] along an axis, h before the first being 0; reverse: from the end. a, b and h have one
// shape. Its gradients, and those of cumprod, are recurrences in the other direction.
Tensor linear_recurrence(const Tensor& a, const Tensor& b, std::int64_t axis, bool reverse);

}  // namespace thalweg
