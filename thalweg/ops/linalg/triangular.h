#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// x with l x = b, or l^T x = b if transposed; l [..., n, n] is lower triangular (nothing else of it is read),
// b [..., n, m] has the same leading sizes.
Tensor triangular_solve(const Tensor& l, const Tensor& b, bool transposed);

}  // namespace thalweg
