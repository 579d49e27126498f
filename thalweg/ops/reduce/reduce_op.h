#pragma once

// Reductions as attributes of other ops.
#include "thalweg/ops/reduce/kernel.h"

namespace thalweg {

// Whether it is reduce_sum, mean, max, min or prod.
bool is_reduction(const OpInfo& info);
// What such an op, with these attributes, does to a tensor of this rank.
cpu::Reduction reduction_of(const OpInfo& info, const void* op, int rank);

}  // namespace thalweg
