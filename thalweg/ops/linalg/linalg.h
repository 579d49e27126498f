#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// Both take matrices of the last two axes, [..., n, n]. 16-bit floats are computed in f32.

// The lower triangular l with l l^T = x; only the lower triangle of x is read, and its gradient is symmetric. A matrix
// that is not positive definite is an error that names it and the pivot.
TW_API Tensor cholesky(const Tensor& x);

// The inverse; a singular matrix is an error that names it and the pivot.
TW_API Tensor matrix_inverse(const Tensor& x);

}  // namespace thalweg
