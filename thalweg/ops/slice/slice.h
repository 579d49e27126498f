#pragma once

#include "thalweg/core/tensor.h"
#include "thalweg/ops/axes.h"

namespace thalweg {

// x[begin_i … begin_i + size_i) along every axis; a size of -1 reaches the end. Slices of leading axes share x's
// memory.
TW_API Tensor slice(const Tensor& x, const Ints& begin, const Ints& size);

// Python's indexing. Entry k speaks of the next axis as begin : end : stride (negative places count from the end, a
// negative stride walks back). Bit k of a mask changes entry k: begin_mask and end_mask let it reach the edge,
// ellipsis_mask makes it "…", new_axis_mask inserts a size of 1, shrink_axis_mask takes the one place `begin` and
// removes the axis. No strides: all 1.
struct StridedSlice {
  Ints begin, end, strides = {};
  std::int64_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0, shrink_axis_mask = 0;
};
TW_API Tensor strided_slice(const Tensor& x, const StridedSlice& options);
// dy at the places that strided_slice takes from a tensor of `shape`, zeros elsewhere.
TW_API Tensor strided_slice_gradient(const Tensor& dy, const Shape& shape, const StridedSlice& options);

// The axes walked backwards.
TW_API Tensor reverse(const Tensor& x, const Axes& axes);

}  // namespace thalweg
