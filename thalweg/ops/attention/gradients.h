#pragma once

#include "thalweg/ops/attention/attention.h"

namespace thalweg {

struct AttentionGradients {
  Tensor q, k, v;
};
// In f32 or f64: o is the result, lse [batch, heads, queries] = log(sum(exp(scores))), d_o the gradient of o.
AttentionGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse,
                                      const Tensor& d_o, const Attention& options);

}  // namespace thalweg
