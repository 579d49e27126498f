#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// Elements moved by `shift` places along an axis (toward the end if positive); those pushed over an end enter at the
// other.
TW_API Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis);
TW_API Tensor roll(const Tensor& x, const Ints& shifts, const Ints& axes);  // one axis after the other

}  // namespace thalweg
