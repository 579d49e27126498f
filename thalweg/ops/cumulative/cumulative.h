#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct Cumulative {
  std::int64_t axis = 0;
  bool exclusive = false;  // element i combines those before it, without itself
  bool reverse = false;    // from the end of the axis
};

TW_API Tensor cumsum(const Tensor& x, const Cumulative& options = {});   // integers wrap around
TW_API Tensor cumprod(const Tensor& x, const Cumulative& options = {});  // its gradient is exact for zeros too

}  // namespace thalweg
