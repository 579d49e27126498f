#pragma once

#include <optional>

#include "thalweg/nn/dense.h"
#include "thalweg/nn/layer.h"

namespace thalweg::nn {

struct ProjectionOptions {
  Shape inputs = {};   // how the last axis of x is cut; rank 0: it is not
  Shape outputs = {};  // how the last axis of the result is cut
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform;
  Initializer bias_initializer = initializers::zeros;
  std::string name = {};
};

// A dense layer whose kernel [inputs…, outputs…] and bias [outputs…] keep the axes of heads apart. Fans are those of
// the matrix.
//   x [..., all inputs]   ->   [..., all outputs]
class TW_API Projection : public LayerWith<ProjectionOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable kernel_, bias_;
};

struct MultiHeadAttentionOptions {
  std::int64_t num_heads = 1;
  std::int64_t key_dim = 0;    // size of a query and of a key
  std::int64_t value_dim = 0;  // size of a value; 0: key_dim
  double dropout = 0;          // of attention weights, in training
  bool use_bias = true;
  std::int64_t output_dim = 0;       // features of the result; 0: those of the query
  std::int64_t key_value_heads = 0;  // fewer than num_heads: each serves a group of queries; 0: num_heads
  Initializer kernel_initializer = initializers::glorot_uniform;
  Initializer bias_initializer = initializers::zeros;
  std::string name = {};
};

struct AttentionCall {
  Tensor key = {};             // the value if not given
  Tensor attention_mask = {};  // boolean [batch, queries, keys] or less, true: seen
  bool use_causal_mask = false;
};

// Attention of several heads, each on its own projections of query, key and value.
//   query [batch, queries, in]   value, key [batch, keys, …]   ->   [batch, queries, output_dim]
// query/kernel [in, heads, key_dim], key and value alike, attention_output/kernel [heads, value_dim, output_dim].
class TW_API MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(MultiHeadAttentionOptions options);
  MultiHeadAttention(Module& parent, std::string name, MultiHeadAttentionOptions options);
  Tensor operator()(const Tensor& query, const Tensor& value, const AttentionCall& call = {});

 private:
  void build(const Tensor& query);
  ProjectionOptions to_heads(std::int64_t heads, std::int64_t size) const;
  const MultiHeadAttentionOptions options_;
  Projection query_{*this, "query", to_heads(options_.num_heads, options_.key_dim)};
  Projection key_{*this, "key", to_heads(options_.key_value_heads, options_.key_dim)};
  Projection value_{*this, "value", to_heads(options_.key_value_heads, options_.value_dim)};
  std::optional<Projection> output_;  // made at the first call
};

struct SelfAttentionOptions {
  std::int64_t num_heads = 1;
  bool causal = false;
  double dropout = 0;    // of attention weights, in training
  bool use_bias = true;  // of the projection that follows
  bool qkv_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform;  // of qkv
  Initializer output_initializer = initializers::glorot_uniform;  // of the projection that follows
  std::string name = {};
};

// Attention of a sequence to itself with one product for queries, keys and values.
//   x [batch, time, width]   qkv [width, 3 width]   projection [width, width]   ->   [batch, time, width]
class TW_API SelfAttention : public Layer {
 public:
  explicit SelfAttention(SelfAttentionOptions options);
  SelfAttention(Module& parent, std::string name, SelfAttentionOptions options);

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  const SelfAttentionOptions options_;
  std::optional<Dense> qkv_, projection_;  // made at the first call, when the width is known
};

}  // namespace thalweg::nn
