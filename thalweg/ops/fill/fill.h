#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// Every element is `value`, as an op: in a trace it takes no memory until it is read.
Tensor fill(const Shape& shape, Number value, DType dtype);

}  // namespace thalweg
