#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// All in f32 or f64.
struct CrossEntropyResult {
  Tensor loss;        // [...]
  Tensor statistics;  // [..., 2]: the largest logit, and its softmax
};
CrossEntropyResult softmax_cross_entropy_forward(const Tensor& labels, const Tensor& logits);
CrossEntropyResult sparse_softmax_cross_entropy_forward(const Tensor& labels, const Tensor& logits);

// Gradients by the logits.
Tensor softmax_cross_entropy_backward(const Tensor& labels, const Tensor& logits, const Tensor& statistics,
                                      const Tensor& dloss);
Tensor sparse_softmax_cross_entropy_backward(const Tensor& labels, const Tensor& logits, const Tensor& statistics,
                                             const Tensor& dloss);

}  // namespace thalweg
