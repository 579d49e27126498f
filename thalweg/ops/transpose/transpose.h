#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// Axes in another order: axis i of the result is axis perm[i] of x. Without perm the axes are reversed.
TW_API Tensor transpose(const Tensor& x, const Ints& perm);
TW_API Tensor transpose(const Tensor& x);

}  // namespace thalweg
