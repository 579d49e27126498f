#pragma once

#include "thalweg/ops/attention/attention.h"

namespace thalweg {

// In any float type; statistics of 16-bit operands are f32.
struct AttentionResult {
  Tensor o;           // what attention gives
  Tensor statistics;  // [batch, heads, queries, 2]: the largest sign(scale) * q k^T and its weight, zeros without keys
};
AttentionResult attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& options);

struct AttentionGradients {
  Tensor q, k, v;
};
// d_o is the gradient of o.
AttentionGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                      const Tensor& statistics, const Tensor& d_o, const Attention& options);

}  // namespace thalweg
