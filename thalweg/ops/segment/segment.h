#pragma once

// Rows of x collected by the number of their segment: x [k…, r…], ids [k…] -> [segments, r…].
#include "thalweg/core/tensor.h"

namespace thalweg {

// ids [k] ascend from 0 or more; there are as many segments as the last id says. Missing ids give zeros.
TW_API Tensor segment_sum(const Tensor& x, const Tensor& ids);
TW_API Tensor segment_mean(const Tensor& x, const Tensor& ids);

// ids in any order, below `segments`; rows with a negative id are left out. A sum over no rows is 0, a maximum over
// none the lowest number of the dtype. Equal maxima share their gradient equally.
TW_API Tensor unsorted_segment_sum(const Tensor& x, const Tensor& ids, std::int64_t segments);
TW_API Tensor unsorted_segment_max(const Tensor& x, const Tensor& ids, std::int64_t segments);

}  // namespace thalweg
