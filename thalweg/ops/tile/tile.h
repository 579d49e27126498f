#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// x repeated as a whole along every axis: [a, b] with multiples {2, 3} -> [2 a, 3 b].
TW_API Tensor tile(const Tensor& x, const Ints& multiples);
// Every place along an axis n times in a row: 1 2 -> 1 1 2 2.
TW_API Tensor repeat(const Tensor& x, std::int64_t n, std::int64_t axis);
// x under a larger shape: axes are matched from the last, and those of size 1 (or missing) are repeated.
TW_API Tensor broadcast_to(const Tensor& x, const Shape& shape);

}  // namespace thalweg
