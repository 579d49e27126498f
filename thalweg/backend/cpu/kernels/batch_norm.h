#pragma once

#include <cstddef>
#include <cstdint>

#include "thalweg/backend/cpu/convert.h"

namespace thalweg::cpu {

// Batch norm: one mean and biased variance per channel over all rows of x [rows, channels]. x, y and their gradients
// are stored as S, any float type; all else is float, or double for double.
template <class S, class T = Wide<S>>
struct BatchNorm {
  std::int64_t rows, channels;
  T epsilon;
  const S* x;                   // [rows, channels]
  const T* scale;               // [channels], null: 1
  const T* offset;              // [channels], null: 0
  S* y;                         // [rows, channels], may be x or the residual
  T* mean;                      // [channels]
  T* variance;                  // [channels]
  T* rstd;                      // [channels] = 1 / sqrt(variance + epsilon)
  T* workspace;                 // batch_norm_workspace(rows, channels) elements
  bool relu = false;            // y is the relu of the norm …
  const S* residual = nullptr;  // … and of this [rows, channels], if it is not null
};

template <class S, class T = Wide<S>>
struct BatchNormGradient {
  std::int64_t rows, channels;
  const S* x;                 // [rows, channels]
  const T* scale;             // [channels], null: 1
  const T* mean;              // [channels]
  const T* rstd;              // [channels]
  const S* dy;                // [rows, channels]
  S* dx;                      // [rows, channels], may be x or dy
  T* dscale;                  // [channels], may be any of the above
  T* doffset;                 // [channels], the same
  T* workspace;               // batch_norm_workspace(rows, channels) elements
  bool relu = false;          // dy is the gradient of the norm's relu, whose
  const T* offset = nullptr;  // [channels], null: 0
};

// Elements of scratch: two rows of partial sums per block of rows, and of what is found from them.
std::size_t batch_norm_workspace(std::int64_t rows, std::int64_t channels);

template <class S>
struct BatchNormKernels {
  void (*forward)(const BatchNorm<S>&);
  // mean, variance and rstd alone; scale, offset and y are not used.
  void (*statistics)(const BatchNorm<S>&);
  // y from the given mean and rstd, as for inference; variance, epsilon and workspace are not used.
  void (*apply)(const BatchNorm<S>&);
  void (*gradient)(const BatchNormGradient<S>&);
};

// The kernels for this processor.
template <class S>
const BatchNormKernels<S>& batch_norm_kernels();

}  // namespace thalweg::cpu
