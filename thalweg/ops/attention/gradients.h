#pragma once

#include "thalweg/ops/attention/attention.h"

namespace thalweg {

struct AttentionGradients {
  Tensor q, k, v;
};
// In f32 or f64: o is the result, d_o its gradient; statistics [batch, heads, queries, 2] are the largest score of
// every query in units of log2 and the sum of 2^(score - it), 0 and 0 where it sees no key.
AttentionGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                      const Tensor& statistics, const Tensor& d_o, const Attention& options);

}  // namespace thalweg
