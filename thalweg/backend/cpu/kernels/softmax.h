#pragma once

#include <cstdint>

#include "thalweg/backend/cpu/convert.h"

namespace thalweg::cpu {

// Softmax over the last axis: x, y, dy, dx are [rows, n]. T is any float type; 16-bit rows are computed in
// float. An output may be one of the inputs.
// Infinities and NaN follow exp(x - max) / sum in IEEE arithmetic: a row with NaN, +inf or only -inf gives NaN.
template <class T>
struct SoftmaxKernels {
  void (*softmax)(const T* x, std::int64_t rows, std::int64_t n, T* y);
  void (*log_softmax)(const T* x, std::int64_t rows, std::int64_t n, T* y);
  // dx = y * (dy - sum(dy * y))
  void (*softmax_gradient)(const T* y, const T* dy, std::int64_t rows, std::int64_t n, T* dx);
  // dx = dy - exp(y) * sum(dy)
  void (*log_softmax_gradient)(const T* y, const T* dy, std::int64_t rows, std::int64_t n, T* dx);
};

// The kernels for this processor.
template <class T>
const SoftmaxKernels<T>& softmax_kernels();

}  // namespace thalweg::cpu
