#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// Gradients over the last axis from the results y; f32 or f64.
Tensor softmax_backward(const Tensor& y, const Tensor& dy);
Tensor log_softmax_backward(const Tensor& y, const Tensor& dy);

}  // namespace thalweg
