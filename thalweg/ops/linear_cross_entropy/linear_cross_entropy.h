#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct LinearCrossEntropy {
  bool transpose_w = false;  // w is [classes, size]
  Tensor bias = {};          // [classes]
};
// sparse_softmax_cross_entropy(labels, matmul(x, w) + bias), forward and backward without holding all logits: they are
// made a few rows at a time, and made again for the gradient.
//   labels [...] of i32 or i64 in [0, classes)   x [..., size]   w [size, classes]   ->   [...]
TW_API Tensor linear_cross_entropy(const Tensor& labels, const Tensor& x, const Tensor& w,
                                   const LinearCrossEntropy& options = {});

}  // namespace thalweg
