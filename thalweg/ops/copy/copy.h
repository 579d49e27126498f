#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// The same values in memory of their own.
TW_API Tensor copy(const Tensor& x);

}  // namespace thalweg
