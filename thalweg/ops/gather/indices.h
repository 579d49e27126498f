#pragma once

// Indices as ops read them: i32, i64 or u8, checked before anything is written.
#include "thalweg/core/op.h"

namespace thalweg {

// Raises a user error unless the dtype can hold indices.
void require_index_dtype(const char* op, const char* what, DType dtype);

template <class F>
void with_index_type(DType dtype, F&& f) {
  if (dtype == i64)
    f(TypeTag<std::int64_t>{});
  else if (dtype == i32)
    f(TypeTag<std::int32_t>{});
  else
    f(TypeTag<std::uint8_t>{});
}

enum class Negative { refused, allowed };

// Throws out_of_range, with position and value, unless every index is below `limit` and, as asked, not negative.
void check_indices(const char* op, const Array& indices, std::int64_t limit, Negative negative = Negative::refused);

// The indices as they are, in 64 bits.
void widen_indices(const Array& indices, std::int64_t* to);

// Index vectors [..., d] into the first d axes of `shape`, as row numbers [...]; throws out_of_range like
// check_indices.
void flatten_index_vectors(const char* op, const Array& vectors, const Shape& shape, std::int64_t* rows);

}  // namespace thalweg
