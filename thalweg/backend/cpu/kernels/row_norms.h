#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::cpu {

// y = (x - mean) * rstd * scale + offset over the last axis, rstd = 1 / sqrt(variance + epsilon).
// RMS norm: the same with mean = 0 and no offset gradient (mean and doffset are then not used). T is float or double.
template <class T>
struct RowNorm {
  std::int64_t rows, n;
  T epsilon;
  const T* x;       // [rows, n]
  const T* scale;   // [n], null: 1
  const T* offset;  // [n], null: 0
  T* y;             // [rows, n], may be x
  T* mean;          // [rows]
  T* rstd;          // [rows]
};

template <class T>
struct RowNormGradient {
  std::int64_t rows, n;
  const T* x;      // [rows, n]
  const T* scale;  // [n], null: 1
  const T* mean;   // [rows]
  const T* rstd;   // [rows]
  const T* dy;     // [rows, n]
  T* dx;           // [rows, n], may be dy
  T* dscale;       // [n], null: not wanted
  T* doffset;      // [n], null: not wanted
  T* workspace;    // row_norm_gradient_workspace(rows, n) elements
};

// Elements of scratch: one row of partial sums for scale and offset per block of rows.
std::size_t row_norm_gradient_workspace(std::int64_t rows, std::int64_t n);

template <class T>
struct RowNormKernels {
  void (*layer_norm)(const RowNorm<T>&);
  void (*layer_norm_gradient)(const RowNormGradient<T>&);
  void (*rms_norm)(const RowNorm<T>&);
  void (*rms_norm_gradient)(const RowNormGradient<T>&);
};

// The kernels for this processor.
template <class T>
const RowNormKernels<T>& row_norm_kernels();

}  // namespace thalweg::cpu
