#pragma once

// Slices of a tensor by index vectors: the last axis of `indices`, of size d, speaks of the first d axes of the tensor.
#include "thalweg/core/tensor.h"

namespace thalweg {

struct GatherNd {
  std::int64_t batch_dims = 0;  // leading axes that x and indices share
};
// x [n_1 … n_d, r…], indices [k…, d] -> [k…, r…].
TW_API Tensor gather_nd(const Tensor& x, const Tensor& indices, const GatherNd& options = {});

// Zeros of `shape` with updates [k…, r…] added at indices [k…, d]; repeated indices add, in row order.
TW_API Tensor scatter_nd(const Tensor& indices, const Tensor& updates, const Shape& shape);
TW_API Tensor tensor_scatter_nd_add(const Tensor& x, const Tensor& indices, const Tensor& updates);
// x with updates in place of what it has there; of repeated indices the last one counts.
TW_API Tensor tensor_scatter_nd_update(const Tensor& x, const Tensor& indices, const Tensor& updates);

}  // namespace thalweg
