#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// The square root, with derivative zero (not infinity) at zero: for norms and deviations.
Tensor guarded_sqrt(const Tensor& x);

}  // namespace thalweg
