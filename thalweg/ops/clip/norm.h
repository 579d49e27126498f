#pragma once

#include <vector>

#include "thalweg/core/gradient.h"

namespace thalweg {

// The norm of all of them together, in f32 or f64. Row-sparse ones must have every row once.
Tensor norm_of_distinct(const char* op, const std::vector<Gradient>& gradients);

}  // namespace thalweg
