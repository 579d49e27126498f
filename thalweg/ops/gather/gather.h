#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct Gather {
  std::int64_t axis = 0;
  std::int64_t batch_dims = 0;  // leading axes that x and indices share
};
// Slices of x along an axis by their numbers: x [b…, o…, n, r…], indices [b…, k…] -> [b…, o…, k…, r…]. An index out of
// range is an error. Along axis 0 (without batch_dims) x's gradient is row-sparse.
TW_API Tensor gather(const Tensor& x, const Tensor& indices, const Gather& options = {});

// Rows of a table: table [rows, r…], ids [k…] -> [k…, r…]. The table's gradient is row-sparse.
TW_API Tensor embedding_lookup(const Tensor& table, const Tensor& ids);

// The slices where the mask is true: x [o…, m…, r…], mask [m…] at `axis` -> [o…, number of trues, r…].
TW_API Tensor boolean_mask(const Tensor& x, const Tensor& mask, std::int64_t axis = 0);

// Rows of a table as by embedding_lookup; a negative id gives zeros.
Tensor gather_or_zero(const Tensor& table, const Tensor& ids);

}  // namespace thalweg
