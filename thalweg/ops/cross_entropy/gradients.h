#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// Gradients by the logits; lse [...] = log(sum(exp(logits))). f32 or f64.
Tensor softmax_cross_entropy_backward(const Tensor& labels, const Tensor& logits, const Tensor& lse,
                                      const Tensor& dloss);
Tensor sparse_softmax_cross_entropy_backward(const Tensor& labels, const Tensor& logits, const Tensor& lse,
                                             const Tensor& dloss);

}  // namespace thalweg
