#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::cpu {

// Group norm: one mean and biased variance per image and group, over the spatial positions and the group's channels.
// T is float or double.
template <class T>
struct GroupNorm {
  std::int64_t batch, spatial, groups, group_size;
  T epsilon;
  const T* x;       // [batch, spatial, groups, group_size]
  const T* scale;   // [groups, group_size], null: 1
  const T* offset;  // [groups, group_size], null: 0
  T* y;             // as x, may be x
  T* mean;          // [batch, groups]
  T* rstd;          // [batch, groups]
  T* workspace;     // group_norm_workspace(batch, groups * group_size) elements
};

template <class T>
struct GroupNormGradient {
  std::int64_t batch, spatial, groups, group_size;
  const T* x;      // [batch, spatial, groups, group_size]
  const T* scale;  // [groups, group_size], null: 1
  const T* mean;   // [batch, groups]
  const T* rstd;   // [batch, groups]
  const T* dy;     // as x
  T* dx;           // as x, may be dy
  T* dscale;       // [groups, group_size]
  T* doffset;      // [groups, group_size]
  T* workspace;    // group_norm_workspace(batch, groups * group_size) elements
};

// Elements of scratch: a few rows of channels per image.
std::size_t group_norm_workspace(std::int64_t batch, std::int64_t channels);

template <class T>
struct GroupNormKernels {
  void (*forward)(const GroupNorm<T>&);
  void (*gradient)(const GroupNormGradient<T>&);
};

// The kernels for this processor.
template <class T>
const GroupNormKernels<T>& group_norm_kernels();

}  // namespace thalweg::cpu
