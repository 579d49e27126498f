#pragma once

#include <optional>

#include "thalweg/core/tensor.h"

namespace thalweg {

struct Attention {
  bool causal = false;                         // query i sees keys 0 … i only
  Tensor mask = {};                            // boolean, true: seen; broadcasts to [batch, heads, queries, keys]
  std::optional<double> scale = std::nullopt;  // 1 / sqrt(size) if not given
  double dropout = 0;                          // the fraction of weights that are dropped, below 1
  std::optional<std::uint64_t> seed = {};      // of dropout
};
// softmax(scale * q k^T) v for every batch entry and head, without a queries x keys buffer. A query that sees no key
// gives zeros. Dropped are those weights that tw::dropout would drop of [batch, heads, queries, keys].
//   q [batch, heads, queries, size]   k [batch, heads, keys, size]   v [batch, heads, keys, value size]
//   ->   [batch, heads, queries, value size]
TW_API Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& options = {});

}  // namespace thalweg
