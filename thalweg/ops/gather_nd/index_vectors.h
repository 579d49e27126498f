#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// Raises a user error unless `indices` [..., d] may speak of the first d axes of a tensor of `shape`; returns d.
int require_index_vectors(const char* op, const Spec& indices, const Shape& shape);

inline std::int64_t vector_count(const Shape& indices) { return indices.product(0, indices.rank() - 1); }

}  // namespace thalweg
