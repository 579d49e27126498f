#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// -sum(labels * log_softmax(logits)) over the last axis, without overflow.
//   labels, logits [..., classes]   ->   [...]
// Differentiable in both. As in TensorFlow the gradient by the logits, softmax(logits) - labels, takes every row of
// labels to sum to 1.
TW_API Tensor softmax_cross_entropy(const Tensor& labels, const Tensor& logits);
// The same for the number of the right class.
//   labels [...] of i32 or i64 in [0, classes)   logits [..., classes]   ->   [...]
TW_API Tensor sparse_softmax_cross_entropy(const Tensor& labels, const Tensor& logits);

}  // namespace thalweg
