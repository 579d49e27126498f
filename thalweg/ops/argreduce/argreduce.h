#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// Place of the largest (smallest) element along an axis, i64; the lowest place among equals. A NaN counts as the
// largest (smallest) of all: the first one wins.
TW_API Tensor argmax(const Tensor& x, std::int64_t axis);
TW_API Tensor argmin(const Tensor& x, std::int64_t axis);

}  // namespace thalweg
