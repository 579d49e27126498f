#include "thalweg/nn/attention.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/nn/training.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/tile/tile.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg::nn {
namespace {

// [batch, time, heads * size] -> [batch, heads, time, size]
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return transpose(reshape(x, {x.shape()[0], x.shape()[1], heads, x.shape()[2] / heads}), {0, 2, 1, 3});
}

// [batch, heads, time, size] -> [batch, time, heads * size]
Tensor join_heads(const Tensor& x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.shape()[0], x.shape()[2], x.shape()[1] * x.shape()[3]});
}

void check_sequence(const char* what, const Tensor& x) {
  TW_CHECK_USER(x.defined() && x.rank() == 3, "multi_head_attention", "sequences are [batch, time, features]",
                "expected a {} of rank 3, got {}", what, x.defined() ? x.shape().to_string() : "an undefined tensor");
}

void check_rank(const Spec& x) {
  TW_CHECK_USER(x.rank() == 3, "self_attention", "sequences are [batch, time, features]",
                "expected an input of rank 3, got {}", x.shape);
}

// The defaults that depend on other options.
MultiHeadAttentionOptions resolved(MultiHeadAttentionOptions options) {
  if (options.value_dim == 0) options.value_dim = options.key_dim;
  if (options.key_value_heads == 0) options.key_value_heads = options.num_heads;
  return options;
}

}  // namespace

void Projection::build(const Spec& x) {
  const std::int64_t in = x.shape.last(), out = options_.outputs.size();
  const Shape inputs = options_.inputs.rank() > 0 ? options_.inputs : Shape{in};
  TW_CHECK_USER(inputs.size() == in, "projection", "the last axis of x holds all inputs",
                "expected an input with {} features, got {}", inputs.size(), x.shape);
  const DType dtype = weight_dtype(x);
  kernel_ = add_variable("kernel", concatenate(inputs, options_.outputs), options_.kernel_initializer,
                         {.dtype = dtype, .initial_shape = {in, out}});
  if (options_.use_bias)
    bias_ = add_variable("bias", options_.outputs, options_.bias_initializer, {.dtype = dtype, .initial_shape = {out}});
}

Tensor Projection::call(const Tensor& x) {
  const std::int64_t out = options_.outputs.size(), in = kernel_.shape().size() / out;
  TW_CHECK_USER(x.rank() >= 1 && x.shape().last() == in, "projection",
                "a layer is for inputs of the sizes that it met first; make another one for these",
                "expected an input with {} features, got {}", in, x.shape());
  const Tensor y = matmul(x, reshape(read(kernel_, x.dtype()), {x.shape().last(), out}));
  return options_.use_bias ? y + reshape(read(bias_, x.dtype()), {out}) : y;
}

MultiHeadAttention::MultiHeadAttention(MultiHeadAttentionOptions options)
    : Module(options.name), options_(resolved(std::move(options))) {}

MultiHeadAttention::MultiHeadAttention(Module& parent, std::string name, MultiHeadAttentionOptions options)
    : Module(parent, std::move(name)), options_(resolved(std::move(options))) {}

ProjectionOptions MultiHeadAttention::to_heads(std::int64_t heads, std::int64_t size) const {
  const std::int64_t none = 0;  // build() refuses numbers below it
  return {.outputs = {std::max(heads, none), std::max(size, none)},
          .use_bias = options_.use_bias,
          .kernel_initializer = options_.kernel_initializer,
          .bias_initializer = options_.bias_initializer};
}

void MultiHeadAttention::build(const Tensor& query) {
  constexpr auto op = "multi_head_attention";
  const auto& [heads, key_dim, value_dim, dropout, use_bias, output_dim, kv_heads, kernel, bias, name] = options_;
  TW_CHECK_USER(heads > 0 && key_dim > 0 && value_dim > 0, op,
                "name the size of the heads: {.num_heads = 8, .key_dim = 64}",
                "expected num_heads, key_dim and value_dim above 0, got {}, {} and {}", heads, key_dim, value_dim);
  TW_CHECK_USER(kv_heads > 0 && heads % kv_heads == 0, op,
                "every head of keys and values serves as many heads of queries",
                "expected key_value_heads that divide {} heads, got {}", heads, kv_heads);
  output_.emplace(*this, "attention_output",
                  ProjectionOptions{.inputs = {heads, value_dim},
                                    .outputs = {output_dim > 0 ? output_dim : query.shape().last()},
                                    .use_bias = use_bias,
                                    .kernel_initializer = kernel,
                                    .bias_initializer = bias});
}

Tensor MultiHeadAttention::operator()(const Tensor& query, const Tensor& value, const AttentionCall& call) {
  const Call running(*this);
  check_sequence("query", query), check_sequence("value", value);
  if (call.key.defined()) check_sequence("key", call.key);
  build_once([&] { build(query); });
  const std::int64_t kv_heads = options_.key_value_heads, group = options_.num_heads / kv_heads;
  const Tensor q = split_heads(query_(query), options_.num_heads);
  Tensor k = split_heads(key_(call.key.defined() ? call.key : value), kv_heads);
  Tensor v = split_heads(value_(value), kv_heads);
  if (group > 1) k = repeat(k, group, 1), v = repeat(v, group, 1);
  Attention options{.causal = call.use_causal_mask, .dropout = is_training() ? options_.dropout : 0};
  if (const Tensor& mask = call.attention_mask; mask.defined())
    options.mask = mask.rank() == 3 ? expand_dims(mask, 1) : mask;  // the same for all heads
  Tensor y = (*output_)(join_heads(attention(q, k, v, options)));
  note_output(y.shape());
  return y;
}

SelfAttention::SelfAttention(SelfAttentionOptions options) : Layer(options.name), options_(std::move(options)) {}

SelfAttention::SelfAttention(Module& parent, std::string name, SelfAttentionOptions options)
    : Layer(parent, std::move(name)), options_(std::move(options)) {}

void SelfAttention::build(const Spec& x) {
  check_rank(x);
  const std::int64_t width = x.shape.last();
  TW_CHECK_USER(options_.num_heads > 0 && width % options_.num_heads == 0, "self_attention",
                "the heads share the features evenly: choose a number that divides them",
                "expected num_heads that divide {} features, got {}", width, options_.num_heads);
  const DenseOptions qkv{
      .units = 3 * width, .use_bias = options_.qkv_bias, .kernel_initializer = options_.kernel_initializer};
  const DenseOptions projection{
      .units = width, .use_bias = options_.use_bias, .kernel_initializer = options_.output_initializer};
  qkv_.emplace(*this, "qkv", qkv);
  projection_.emplace(*this, "projection", projection);
}

Tensor SelfAttention::call(const Tensor& x) {
  check_rank(x.spec());
  const std::int64_t batch = x.shape()[0], time = x.shape()[1], heads = options_.num_heads, size = x.shape()[2] / heads;
  // One copy puts queries, keys and values apart and heads before time.
  const Tensor all = transpose(reshape((*qkv_)(x), {batch, time, 3, heads, size}), {2, 0, 3, 1, 4});
  const auto parts = unstack(all, 0);
  const Attention options{.causal = options_.causal, .dropout = is_training() ? options_.dropout : 0};
  return (*projection_)(join_heads(attention(parts[0], parts[1], parts[2], options)));
}

}  // namespace thalweg::nn
