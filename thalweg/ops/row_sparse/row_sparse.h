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

// The table [rows, ...] with the rows of values [n, ...] in the places `indices` [n], all different or -1: none.
Tensor put_rows(const Tensor& table, const Tensor& indices, const Tensor& values);
// The same inside a variable, in place where nobody else holds its bytes.
void put_rows(Variable& variable, const Tensor& indices, const Tensor& values);

// A row-sparse gradient with every row once, ascending: repeated rows are added up. Others are returned as they are.
Gradient combine_rows(const Gradient& gradient);

}  // namespace thalweg
