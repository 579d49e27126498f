#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct OneHot {
  Number on_value = 1, off_value = 0;
  std::int64_t axis = -1;  // where the new axis stands in the result
  DType dtype = f32;
};
// A new axis of size `depth` that is on_value at the place the index names and off_value elsewhere. An index out of
// range is off everywhere.
TW_API Tensor one_hot(const Tensor& indices, std::int64_t depth, const OneHot& options = {});

}  // namespace thalweg
