#pragma once

#include "thalweg/core/op.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/attention/layout.h"

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
// d_o is the gradient of o. Dropout finds the weights that were dropped by its seed.
AttentionGradients attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                      const Tensor& statistics, const Tensor& d_o, const Attention& options);

// The same for operands that lie otherwise: q, k, v and, for the gradient, o, statistics, d_o.
AttentionResult attention_forward(AttentionLayout layout, const Tensors& operands, const Attention& options);
Tensors attention_backward(AttentionLayout layout, const Tensors& operands, const Attention& options);

// Whether it is attention or its gradient with dropout: the weights are numbered, so that one more axis changes them.
bool drops_weights(const OpInfo& info, const void* op);

}  // namespace thalweg
