#include "thalweg/nn/transformer.h"

#include "thalweg/core/check.h"

namespace thalweg::nn {

TransformerBlock::TransformerBlock(TransformerBlockOptions options)
    : Layer(options.name), options_(std::move(options)) {}

TransformerBlock::TransformerBlock(Module& parent, std::string name, TransformerBlockOptions options)
    : Layer(parent, std::move(name)), options_(std::move(options)) {}

void TransformerBlock::build(const Spec& x) {
  TW_CHECK_USER(x.rank() == 3, "transformer_block", "sequences are [batch, time, features]",
                "expected an input of rank 3, got {}", x.shape);
  const std::int64_t width = x.shape.last();
  dense1_.emplace(*this, "dense1",
                  DenseOptions{.units = options_.hidden > 0 ? options_.hidden : 4 * width,
                               .activation = options_.activation,
                               .use_bias = options_.use_bias,
                               .kernel_initializer = options_.kernel_initializer});
  dense2_.emplace(
      *this, "dense2",
      DenseOptions{.units = width, .use_bias = options_.use_bias, .kernel_initializer = options_.output_initializer});
}

Tensor TransformerBlock::call(const Tensor& x) {
  const Tensor h = x + dropout_(attention_(norm1_(x)));
  return h + dropout_((*dense2_)((*dense1_)(norm2_(h))));
}

}  // namespace thalweg::nn
