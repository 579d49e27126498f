#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::cpu {

// Along the rows of x [rows, n], n < 2^31. T is float, double, int32, int64 or uint8. -0 and 0 are equal.

// Stable: equal values keep their order. NaN comes last, ascending or descending.
// values [rows, n] and indices [rows, n] may be null if not wanted; values must not overlap x.
// workspace: sort_workspace(rows, n) bytes.
template <class T>
void sort_rows(const T* x, std::int64_t rows, std::int64_t n, bool descending, T* values, std::int32_t* indices,
               void* workspace);
std::size_t sort_workspace(std::int64_t rows, std::int64_t n);

// The k <= n largest of each row, descending; of equal values the lowest index first. NaN counts as the largest value,
// so that it shows. values [rows, k], indices [rows, k]; workspace: sort_workspace(rows, k) bytes.
template <class T>
void top_k_rows(const T* x, std::int64_t rows, std::int64_t n, std::int64_t k, T* values, std::int32_t* indices,
                void* workspace);

}  // namespace thalweg::cpu
