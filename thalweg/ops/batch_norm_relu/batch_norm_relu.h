#pragma once

// A batch norm and the relu of it, or of it and a residual, in one walk; the gradient finds anew where the relu is
// above zero. Compiled functions make it of relu(batch_norm(x).y) and relu(residual + batch_norm(x).y).
#include "thalweg/core/tensor.h"
#include "thalweg/ops/batch_norm/batch_norm.h"
#include "thalweg/ops/batch_norm/gradients.h"

namespace thalweg {

struct BatchNormReluResult {
  Tensor z, mean, variance, rstd;
};
//   x [..., channels]   scale, offset [channels]   residual as x, or none
//   ->   z as x, mean, variance, rstd [channels]
BatchNormReluResult batch_norm_relu(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& residual,
                                    const BatchNorm& options);

// Of the relu without a residual: dz as x.
BatchNormGradients batch_norm_relu_backward(const Tensor& x, const Tensor& scale, const Tensor& offset,
                                            const Tensor& mean, const Tensor& rstd, const Tensor& dz,
                                            const BatchNorm& options);

}  // namespace thalweg
