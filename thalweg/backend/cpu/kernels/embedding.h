#pragma once

#include <cstddef>
#include <cstdint>

#include "thalweg/backend/cpu/kernels/index_view.h"

namespace thalweg::cpu {

// out [n, row_bytes] = table[ids], table [rows, row_bytes], ids [n] in [0, rows): see find_bad_index.
void gather_rows(const void* table, std::size_t row_bytes, IndexView ids, std::int64_t n, void* out);

// Gradients of a gather: values [n, width] belong to the rows ids [n] of a table [rows, width], ids may repeat.
// Rows of equal id are added in ascending position, whatever the number of threads.
template <class T>
struct RowSum {
  std::int64_t rows, width, n;
  IndexView ids;            // [n], in [0, rows)
  const T* values;          // [n, width]
  std::int64_t* workspace;  // row_sum_workspace(n) elements
};

std::size_t row_sum_workspace(std::int64_t n);

// T is float or double.
template <class T>
struct RowSumKernels {
  // table [rows, width]: table[ids[i]] += values[i]
  void (*scatter_add)(const RowSum<T>&, T* table);
  // Ids that occur, ascending, and the sum of the rows of each; returns their number. unique_ids [n], sums [n, width].
  std::int64_t (*sum_duplicates)(const RowSum<T>&, std::int64_t* unique_ids, T* sums);
};

// The kernels for this processor.
template <class T>
const RowSumKernels<T>& row_sum_kernels();

}  // namespace thalweg::cpu
