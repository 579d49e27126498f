#include <cmath>

#include "models/models.h"

namespace thalweg::models {
namespace {

nn::Initializer normal(double stddev) { return nn::initializers::random_normal({.stddev = stddev}); }

constexpr double start = 0.02;  // the deviation of the first weights

std::deque<nn::TransformerBlock> make_blocks(nn::Module& parent, const GptOptions& options) {
  const double depth = 2 * static_cast<double>(options.layers);
  const nn::TransformerBlockOptions block{.num_heads = options.heads,
                                          .dropout = options.dropout,
                                          .kernel_initializer = normal(start),
                                          .output_initializer = normal(start / std::sqrt(depth))};
  std::deque<nn::TransformerBlock> blocks;
  for (std::int64_t i = 0; i < options.layers; ++i) blocks.emplace_back(parent, "block" + std::to_string(i), block);
  return blocks;
}

}  // namespace

GptOptions gpt_size(const std::string& name) {
  if (name == "nano") return {};
  if (name == "small") return {.context = 512, .layers = 12, .heads = 8, .width = 512};
  if (name == "124m") return {.vocabulary = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768};
  throw Error(ErrorCode::invalid_argument, "gpt", "expected the size nano, small or 124m, got \"" + name + "\"",
              "single numbers can be set as well: layers, heads, width, context");
}

Gpt::Gpt(const GptOptions& options)
    : options_(options),
      tokens_(*this, "tokens",
              {.input_dim = options.vocabulary, .output_dim = options.width, .embeddings_initializer = normal(start)}),
      dropout_(*this, "dropout", {.rate = options.dropout}),
      blocks_(make_blocks(*this, options)),
      norm_(*this, "norm", {.epsilon = 1e-5}) {}

void Gpt::build(const Spec&) {
  positions_ = add_variable("positions", {options_.context, options_.width}, normal(start));
}

Tensor Gpt::call(const Tensor& ids) {
  const std::int64_t time = ids.rank() == 2 ? ids.shape()[1] : 0;
  if (time < 1 || time > options_.context)
    throw Error(ErrorCode::invalid_argument, "gpt",
                "expected ids [batch, time] with at most " + std::to_string(options_.context) + " steps, got " +
                    ids.shape().to_string(),
                "cut the sequences, or make the model with a larger context");
  Tensor x = dropout_(tokens_(ids) + slice(positions_, {0, 0}, {time, options_.width}));
  for (auto& block : blocks_) x = block(x);
  return tokens_.attend(norm_(x));
}

}  // namespace thalweg::models
