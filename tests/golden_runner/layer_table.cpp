// Keras' layers and their arguments in our words: one row per class, a: arguments, x: the tensors of the call.
#include "tests/golden_runner/layer_run.h"
#include "thalweg/nn/nn.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/softmax/softmax.h"

namespace thalweg::golden {
namespace {

using A = Attributes;
using X = LayerInputs;

// A layer of one tensor.
template <class L, class Options>
LayerProgram layer(Options options) {
  auto made = std::make_unique<L>(std::move(options));
  auto* pointer = made.get();
  return {std::move(made), [pointer](const X& x) { return std::vector{(*pointer)(x["x"])}; }};
}

nn::Activation activation_of(const A& a) {
  if (!a.has("activation")) return {};
  const auto text = a.text("activation");
  if (text == "relu") return relu;
  if (text == "tanh") return tanh;
  if (text == "gelu") return gelu;
  if (text == "softmax") return softmax;
  throw NotUnderstood("activation \"" + text + "\" is not understood");
}

nn::Sizes sizes_of(const A& a, const char* name, std::int64_t otherwise) {
  if (!a.has(name)) return otherwise;
  return a.is_list(name) ? nn::Sizes(Ints(a.integers(name))) : nn::Sizes(a.integer(name));
}

Padding padding_of(const A& a) { return a.has("padding") && a.text("padding") == "same" ? same : valid; }

nn::ConvOptions conv_of(const A& a) {
  return {.filters = a.integer("filters"),
          .kernel_size = sizes_of(a, "kernel_size", 1),
          .strides = sizes_of(a, "strides", 1),
          .padding = padding_of(a),
          .dilations = sizes_of(a, "dilation_rate", 1),
          .activation = activation_of(a),
          .causal = a.has("padding") && a.text("padding") == "causal"};
}

template <class L>
MakeLayer convolution() {
  return [](const A& a, DType) { return layer<L>(conv_of(a)); };
}

template <class L>
MakeLayer pool() {
  return [](const A& a, DType) {
    nn::PoolOptions options{.size = sizes_of(a, "pool_size", 2), .padding = padding_of(a)};
    if (a.has("strides")) options.strides = sizes_of(a, "strides", 1);
    return layer<L>(options);
  };
}

template <class L, class Options>
MakeLayer plain() {
  return [](const A&, DType) { return layer<L>(Options{}); };
}

template <class L>
MakeLayer recurrent() {
  return [](const A& a, DType) {
    const bool return_state = a.flag("return_state", false);
    auto made = std::make_unique<L>(nn::RecurrentOptions{.units = a.integer("units"),
                                                         .reset_after = a.flag("reset_after", true),
                                                         .return_sequences = a.flag("return_sequences", false),
                                                         .go_backwards = a.flag("go_backwards", false)});
    auto* pointer = made.get();
    return LayerProgram{std::move(made), [pointer, return_state](const X& x) {
                          nn::RecurrentCall call;
                          for (const char* state : {"h0", "c0"})
                            if (x.has(state)) call.initial_state.push_back(x[state]);
                          if (x.has("mask")) call.mask = x["mask"];
                          const auto [output, state] = (*pointer)(x["x"], call);
                          std::vector<Tensor> outputs{output};
                          if (return_state) outputs.insert(outputs.end(), state.begin(), state.end());
                          return outputs;
                        }};
  };
}

LayerProgram multi_head_attention(const A& a, DType) {
  const bool causal = a.flag("use_causal_mask", false);
  auto made = std::make_unique<nn::MultiHeadAttention>(
      nn::MultiHeadAttentionOptions{.num_heads = a.integer("num_heads"),
                                    .key_dim = a.integer("key_dim"),
                                    .value_dim = a.integer("value_dim", 0),
                                    .output_dim = a.integer("output_shape", 0)});
  auto* pointer = made.get();
  return {std::move(made), [pointer, causal](const X& x) {
            nn::AttentionCall call{.key = x["key"], .use_causal_mask = causal};
            if (x.has("attention_mask")) call.attention_mask = x["attention_mask"];
            return std::vector{(*pointer)(x["query"], x["value"], call)};
          }};
}

LayerProgram normalization(const A& a, DType) {
  const Axes axes = a.axes("axis");
  auto made = std::make_unique<nn::Normalization>(nn::NormalizationOptions{.axes = axes.all() ? Axes::none() : axes});
  auto* pointer = made.get();
  return {std::move(made), [pointer](const X& x) {
            pointer->adapt(x["data"]);
            return std::vector{(*pointer)(x["x"])};
          }};
}

nn::ZeroPaddingOptions zero_padding_of(const A& a) {
  nn::ZeroPaddingOptions options{.padding = {}};
  for (const auto& pair : a.rows("padding")) options.padding.emplace_back(pair.at(0), pair.at(1));
  return options;
}

const std::map<std::string, MakeLayer> table = {
    {"Dense",
     [](const A& a, DType) {
       return layer<nn::Dense>(nn::DenseOptions{
           .units = a.integer("units"), .activation = activation_of(a), .use_bias = a.flag("use_bias", true)});
     }},
    {"Conv1D", convolution<nn::Conv1D>()},
    {"Conv2D", convolution<nn::Conv2D>()},
    {"Conv2DTranspose", convolution<nn::Conv2DTranspose>()},
    {"DepthwiseConv2D",
     [](const A& a, DType) {
       return layer<nn::DepthwiseConv2D>(
           nn::DepthwiseConvOptions{.kernel_size = sizes_of(a, "kernel_size", 1),
                                    .strides = sizes_of(a, "strides", 1),
                                    .padding = padding_of(a),
                                    .depth_multiplier = a.integer("depth_multiplier", 1)});
     }},
    {"SeparableConv2D",
     [](const A& a, DType) {
       return layer<nn::SeparableConv2D>(
           nn::SeparableConvOptions{.filters = a.integer("filters"),
                                    .kernel_size = sizes_of(a, "kernel_size", 1),
                                    .strides = sizes_of(a, "strides", 1),
                                    .padding = padding_of(a),
                                    .depth_multiplier = a.integer("depth_multiplier", 1)});
     }},
    {"BatchNormalization",
     [](const A& a, DType) {
       return layer<nn::BatchNorm>(nn::BatchNormOptions{.momentum = a.number("momentum", 0.99),
                                                        .epsilon = a.number("epsilon", 1e-3),
                                                        .scale = a.flag("scale", true)});
     }},
    {"LayerNormalization",
     [](const A& a, DType) {
       return layer<nn::LayerNorm>(nn::LayerNormOptions{.axes = a.has("axis") ? a.axes("axis") : Axes(-1),
                                                        .epsilon = a.number("epsilon", 1e-3)});
     }},
    {"RMSNormalization",
     [](const A& a, DType) { return layer<nn::RMSNorm>(nn::RMSNormOptions{.epsilon = a.number("epsilon", 1e-6)}); }},
    {"GroupNormalization",
     [](const A& a, DType) {
       return layer<nn::GroupNorm>(
           nn::GroupNormOptions{.groups = a.integer("groups", 32), .epsilon = a.number("epsilon", 1e-3)});
     }},
    {"Normalization", normalization},
    {"Embedding",
     [](const A& a, DType dtype) {
       return layer<nn::Embedding>(nn::EmbeddingOptions{
           .input_dim = a.integer("input_dim"), .output_dim = a.integer("output_dim"), .dtype = dtype});
     }},
    {"MultiHeadAttention", multi_head_attention},
    {"LSTM", recurrent<nn::LSTM>()},
    {"GRU", recurrent<nn::GRU>()},
    {"SimpleRNN", recurrent<nn::SimpleRNN>()},
    {"MaxPooling1D", pool<nn::MaxPool>()},
    {"MaxPooling2D", pool<nn::MaxPool>()},
    {"AveragePooling1D", pool<nn::AvgPool>()},
    {"AveragePooling2D", pool<nn::AvgPool>()},
    {"GlobalAveragePooling1D", plain<nn::GlobalAvgPool, nn::GlobalPoolOptions>()},
    {"GlobalAveragePooling2D", plain<nn::GlobalAvgPool, nn::GlobalPoolOptions>()},
    {"GlobalMaxPooling2D", plain<nn::GlobalMaxPool, nn::GlobalPoolOptions>()},
    {"Flatten", plain<nn::Flatten, nn::FlattenOptions>()},
    {"ZeroPadding2D", [](const A& a, DType) { return layer<nn::ZeroPadding>(zero_padding_of(a)); }},
    {"UpSampling2D",
     [](const A& a, DType) { return layer<nn::UpSampling2D>(nn::UpSamplingOptions{.size = sizes_of(a, "size", 2)}); }},
    {"ReLU",
     [](const A& a, DType) {
       return layer<nn::ReLU>(nn::ReLUOptions{.max_value = a.number("max_value"),
                                              .negative_slope = a.number("negative_slope", 0),
                                              .threshold = a.number("threshold", 0)});
     }},
    {"LeakyReLU",
     [](const A& a, DType) {
       return layer<nn::LeakyReLU>(nn::LeakyReLUOptions{.negative_slope = a.number("negative_slope", 0.3)});
     }},
    {"ELU", [](const A& a, DType) { return layer<nn::ELU>(nn::ELUOptions{.alpha = a.number("alpha", 1)}); }},
    {"PReLU", plain<nn::PReLU, nn::PReLUOptions>()},
    {"Softmax", plain<nn::Softmax, nn::SoftmaxOptions>()},
};

}  // namespace

const std::map<std::string, MakeLayer>& layer_table() { return table; }

}  // namespace thalweg::golden
