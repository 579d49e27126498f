#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// y[..., j] = x[..., indices[..., j]] along the last axis; indices (i32) has x's leading sizes.
Tensor take_along(const Tensor& x, const Tensor& indices);

// y[..., indices[..., j]] += x[..., j], y [..., n] being zero before: the gradient of take_along, and the reverse.
Tensor put_along(const Tensor& x, const Tensor& indices, std::int64_t n);

}  // namespace thalweg
