#pragma once

#include "thalweg/core/op.h"

namespace thalweg {

// x [batches, outer, places, row] and indices [batches, count] -> y [batches, outer, count, row].
struct GatherLayout {
  std::int64_t batches, outer, places, count, row;
};

// y[b, o, k] = x[b, o, indices[b, k]], with indices already checked; negative ones give zeros.
void gather_rows(const GatherLayout& layout, const Array& x, const Array& indices, const Array& y);

}  // namespace thalweg
