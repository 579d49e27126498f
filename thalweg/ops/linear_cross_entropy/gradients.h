#pragma once

#include "thalweg/ops/cross_entropy/gradients.h"
#include "thalweg/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace thalweg {

// All in f32 or f64, x and w also in 16 bits with the rest in f32; x [rows, size].
CrossEntropyResult linear_cross_entropy_forward(const Tensor& labels, const Tensor& x, const Tensor& w,
                                                const LinearCrossEntropy& options);

struct LinearCrossEntropyGradients {
  Tensor x, w;
  Tensor bias;  // undefined without a bias
};
LinearCrossEntropyGradients linear_cross_entropy_backward(const Tensor& labels, const Tensor& x, const Tensor& w,
                                                          const Tensor& statistics, const Tensor& dloss,
                                                          const LinearCrossEntropy& options);

}  // namespace thalweg
