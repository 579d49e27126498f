#pragma once

#include <cstddef>
#include <cstdint>

#include "thalweg/backend/cpu/convert.h"

namespace thalweg::cpu {

// Group norm: one mean and biased variance per image and group, over the spatial positions and the group's channels.
// x, y and their gradients
// are stored as S, any float type; all else is float, or double for double.
template <class S, class T = Wide<S>>
struct GroupNorm {
  std::int64_t batch, spatial, groups, group_size;
  T epsilon;
  const S* x;       // [batch, spatial, groups, group_size]
  const T* scale;   // [groups, group_size], null: 1
  const T* offset;  // [groups, group_size], null: 0
  S* y;             // as x, may be x
  T* mean;          // [batch, groups]
  T* rstd;          // [batch, groups]
  T* workspace;     // group_norm_workspace(batch, groups * group_size) elements
};

template <class S, class T = Wide<S>>
struct GroupNormGradient {
  std::int64_t batch, spatial, groups, group_size;
  const S* x;      // [batch, spatial, groups, group_size]
  const T* scale;  // [groups, group_size], null: 1
  const T* mean;   // [batch, groups]
  const T* rstd;   // [batch, groups]
  const S* dy;     // as x
  S* dx;           // as x, may be dy
  T* dscale;       // [groups, group_size]
  T* doffset;      // [groups, group_size]
  T* workspace;    // group_norm_workspace(batch, groups * group_size) elements
};

// Elements of scratch: a few rows of channels per image.
std::size_t group_norm_workspace(std::int64_t batch, std::int64_t channels);

template <class S>
struct GroupNormKernels {
  void (*forward)(const GroupNorm<S>&);
  void (*gradient)(const GroupNormGradient<S>&);
};

// The kernels for this processor.
template <class S>
const GroupNormKernels<S>& group_norm_kernels();

}  // namespace thalweg::cpu
