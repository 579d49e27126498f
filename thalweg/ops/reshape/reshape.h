#pragma once

#include "thalweg/core/tensor.h"
#include "thalweg/ops/axes.h"

namespace thalweg {

// The same elements under another shape; one size may be -1 and is then found. Shares x's memory.
TW_API Tensor reshape(const Tensor& x, const Ints& shape);
TW_API Tensor expand_dims(const Tensor& x, std::int64_t axis);  // a size of 1 before `axis`
TW_API Tensor squeeze(const Tensor& x, const Axes& axes = {});  // without the axes of size 1 (all, or those named)

}  // namespace thalweg
