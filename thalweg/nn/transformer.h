#pragma once

#include "thalweg/nn/attention.h"
#include "thalweg/nn/dropout.h"
#include "thalweg/nn/norms.h"

namespace thalweg::nn {

struct TransformerBlockOptions {
  std::int64_t num_heads = 1;
  std::int64_t hidden = 0;  // units between the two dense layers; 0: four times the width
  bool causal = true;
  double dropout = 0;  // behind attention and behind the dense layers, in training
  bool use_bias = true;
  bool qkv_bias = true;
  double epsilon = 1e-5;  // of the norms
  Activation activation = [](const Tensor& x) { return gelu_tanh(x); };
  Initializer kernel_initializer = initializers::glorot_uniform;
  Initializer output_initializer = initializers::glorot_uniform;  // of the two kernels that add to x
  std::string name = {};
};

// A block of a transformer with the norms first:
//   x = x + attention(norm1(x));  x = x + dense2(activation(dense1(norm2(x))))
//   x [batch, time, width]   ->   [batch, time, width]
class TW_API TransformerBlock : public Layer {
 public:
  explicit TransformerBlock(TransformerBlockOptions options);
  TransformerBlock(Module& parent, std::string name, TransformerBlockOptions options);

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  const TransformerBlockOptions options_;
  LayerNorm norm1_{*this, "norm1", {.epsilon = options_.epsilon}};
  SelfAttention attention_{*this,
                           "attention",
                           {.num_heads = options_.num_heads,
                            .causal = options_.causal,
                            .use_bias = options_.use_bias,
                            .qkv_bias = options_.qkv_bias,
                            .kernel_initializer = options_.kernel_initializer,
                            .output_initializer = options_.output_initializer}};
  LayerNorm norm2_{*this, "norm2", {.epsilon = options_.epsilon}};
  std::optional<Dense> dense1_, dense2_;  // made at the first call, when the width is known
  Dropout dropout_{*this, "dropout", {.rate = options_.dropout}};
};

}  // namespace thalweg::nn
