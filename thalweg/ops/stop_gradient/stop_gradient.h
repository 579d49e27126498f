#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// x itself, through which no gradient flows. Shares x's memory.
TW_API Tensor stop_gradient(const Tensor& x);

}  // namespace thalweg
