#pragma once

// The rows as loops over chunks. n is a multiple of lanes<T>; absent operands are null.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "thalweg/ops/rows.h"

namespace thalweg {

template <class T>
using RowKernel = void (*)(const T* x, const T* z, const T* a, T* y, std::size_t n);

// Float chunks are padded to whole vectors of 64 bytes; integers are not, for a padded divisor would be zero.
template <class T>
inline constexpr std::size_t lanes = std::is_floating_point_v<T> ? 64 / sizeof(T) : 1;

// Null: this row is not computed in this type.
RowKernel<float> row_kernel_f32(Row row);
RowKernel<double> row_kernel_f64(Row row);
template <class T>
RowKernel<T> integer_row_kernel(Row row);  // int32_t, int64_t, uint8_t

}  // namespace thalweg
