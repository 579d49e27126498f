#pragma once

// Row-sparse gradients whose number of distinct rows is known only in memory: lists keep their length, and rows beyond
// the last have the number -1.
#include "thalweg/core/gradient.h"
#include "thalweg/core/variable.h"

namespace thalweg {

struct DistinctRows {
  Tensor rows;    // [n] of i64: the numbers among `indices`, each once and ascending, then -1
  Tensor places;  // [n] of i64: where each index stands among them, -1 for -1
};
// indices [n] in [-1, rows)
DistinctRows distinct_rows(const Tensor& indices, std::int64_t rows);

// Rows of the table [rows, ...] by numbers [n] that distinct_rows made, and zeros for -1: [n, ...]
Tensor take_rows(const Tensor& table, const Tensor& numbers);
// The table with values [n, ...] in these rows, which must be fewer than it has.
Tensor put_rows(const Tensor& table, const Tensor& numbers, const Tensor& values);
// The same inside a variable, in place where nobody else holds its bytes.
void put_rows(Variable& variable, const Tensor& numbers, const Tensor& values);

// A row-sparse gradient with every row once, ascending: repeated rows are added up. Others are returned as they are.
Gradient combine_rows(const Gradient& gradient);

}  // namespace thalweg
