#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::cpu {

// Batch norm: one mean and biased variance per channel over all rows of x [rows, channels]. T is float or double.
template <class T>
struct BatchNorm {
  std::int64_t rows, channels;
  T epsilon;
  const T* x;       // [rows, channels]
  const T* scale;   // [channels], null: 1
  const T* offset;  // [channels], null: 0
  T* y;             // [rows, channels], may be x
  T* mean;          // [channels]
  T* variance;      // [channels]
  T* rstd;          // [channels] = 1 / sqrt(variance + epsilon)
  T* workspace;     // batch_norm_workspace(rows, channels) elements
};

template <class T>
struct BatchNormGradient {
  std::int64_t rows, channels;
  const T* x;      // [rows, channels]
  const T* scale;  // [channels], null: 1
  const T* mean;   // [channels]
  const T* rstd;   // [channels]
  const T* dy;     // [rows, channels]
  T* dx;           // [rows, channels], may be dy
  T* dscale;       // [channels]
  T* doffset;      // [channels]
  T* workspace;    // batch_norm_workspace(rows, channels) elements
};

// Elements of scratch: two rows of partial sums per block of rows.
std::size_t batch_norm_workspace(std::int64_t rows, std::int64_t channels);

template <class T>
struct BatchNormKernels {
  void (*forward)(const BatchNorm<T>&);
  // y from the given mean and rstd, as for inference; variance, epsilon and workspace are not used.
  void (*apply)(const BatchNorm<T>&);
  void (*gradient)(const BatchNormGradient<T>&);
};

// The kernels for this processor.
template <class T>
const BatchNormKernels<T>& batch_norm_kernels();

}  // namespace thalweg::cpu
