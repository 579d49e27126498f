#pragma once

#include <cstddef>
#include <cstdint>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/core/region.h"

namespace thalweg::cpu {

// y = (x - mean) * rstd * scale + offset over the last axis, rstd = 1 / sqrt(variance + epsilon).
// RMS norm: the same with mean = 0 and no offset gradient (mean and doffset are then not used). S is any float type:
// rows are stored in it; all else, and the arithmetic, is float, or double for double.
template <class S, class T = Wide<S>>
struct RowNorm {
  std::int64_t rows, n;
  T epsilon;
  const S* x;       // [rows, n]
  const T* scale;   // [n], null: 1
  const T* offset;  // [n], null: 0
  S* y;             // [rows, n], may be x
  T* mean;          // [rows]
  T* rstd;          // [rows]
};

template <class S, class T = Wide<S>>
struct RowNormGradient {
  std::int64_t rows, n;
  const S* x;                      // [rows, n]
  const T* scale;                  // [n], null: 1
  const T* mean;                   // [rows]
  const T* rstd;                   // [rows]
  const S* dy;                     // [rows, n]
  S* dx;                           // [rows, n], may be dy
  T* dscale;                       // [n], null: not wanted
  T* doffset;                      // [n], null: not wanted
  T* workspace;                    // row_norm_gradient_workspace(rows, n) elements
  const OnRegion* done = nullptr;  // told of rows of dx
};

// Elements of scratch: one row of partial sums for scale and offset per block of rows.
std::size_t row_norm_gradient_workspace(std::int64_t rows, std::int64_t n);

template <class S>
struct RowNormKernels {
  void (*layer_norm)(const RowNorm<S>&);
  void (*layer_norm_gradient)(const RowNormGradient<S>&);
  void (*rms_norm)(const RowNorm<S>&);
  void (*rms_norm_gradient)(const RowNormGradient<S>&);
};

// The kernels for this processor.
template <class S>
const RowNormKernels<S>& row_norm_kernels();

}  // namespace thalweg::cpu
