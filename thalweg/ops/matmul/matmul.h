#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct Matmul {
  bool transpose_a = false;  // a is [..., k, m]
  bool transpose_b = false;  // b is [..., n, k]
};
// The matrix products of the last two axes: a [..., m, k] and b [..., k, n] give [..., m, n]; leading axes broadcast.
// Sums of 16-bit floats are f32; integers wrap around.
TW_API Tensor matmul(const Tensor& a, const Tensor& b, const Matmul& options = {});

}  // namespace thalweg
