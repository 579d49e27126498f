#pragma once

#include "thalweg/core/gradient.h"

namespace thalweg {

// A row-sparse gradient with every row once, ascending: repeated rows are added up. Others are returned as they are.
Gradient combine_rows(const Gradient& gradient);

// y [count, ...]: row places[i] is the sum of the rows x[i]; places [n] is i64, x [n, ...].
Tensor sum_rows(const Tensor& x, const Tensor& places, std::int64_t count);
// y[i] = x[places[i]]: the gradient of sum_rows, and the reverse.
Tensor take_rows(const Tensor& x, const Tensor& places);

}  // namespace thalweg
