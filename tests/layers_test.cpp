// Layers beyond the golden cases: options, training and its absence, and how layers are put together.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/values.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/nn/nn.h"
#include "thalweg/ops/ops.h"
#include "thalweg/plan/function.h"

namespace thalweg::nn {
namespace {

using testing::expect_error;
using testing::near;

Tensor numbers(const Shape& shape, DType dtype = f64) { return random::normal(shape, {.seed = 3, .dtype = dtype}); }

std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> names;
  for (const auto& variable : module.variables()) names.push_back(variable.name());
  return names;
}

std::map<std::string, Tensor> weights_of(const Module& module) {
  std::map<std::string, Tensor> values;
  for (const auto& variable : module.variables()) values[variable.name()] = variable.value();
  return values;
}

TEST(sequential, layers_are_named_by_kind_and_number) {
  Sequential model({dense(4, thalweg::relu), dense({.units = 3, .name = "middle"}), dense(2), thalweg::tanh});
  EXPECT_EQ(model(numbers({5, 6})).shape(), (Shape{5, 2}));
  EXPECT_EQ(names_of(model), (std::vector<std::string>{"dense/kernel", "dense/bias", "middle/kernel", "middle/bias",
                                                       "dense_1/kernel", "dense_1/bias"}));
  EXPECT_EQ(model.size(), 4u);
  EXPECT_EQ(model[1].name(), "middle");
}

TEST(sequential, of_one_layer_and_of_none) {
  Sequential one({dense(2)}), none({});
  const Tensor x = numbers({3, 4});
  EXPECT_EQ(one(x).shape(), (Shape{3, 2}));
  EXPECT_TRUE(testing::same_bits(none(x), x));
}

TEST(sequential, a_name_twice_is_an_error) {
  EXPECT_THROW(Sequential({dense({.units = 2, .name = "a"}), dense({.units = 2, .name = "a"})}), Error);
}

TEST(residual, adds_the_body_to_the_shortcut) {
  Residual identity({.body = {[](const Tensor& x) { return 2 * x; }}});
  const Tensor x = numbers({3, 4});
  EXPECT_TRUE(near(identity(x), 3 * x, 1e-15));
  Residual projected({.body = {dense(2)}, .shortcut = {dense(2)}, .activation = thalweg::relu});
  EXPECT_EQ(projected(x).shape(), (Shape{3, 2}));
  Residual wrong({.body = {dense(2)}});
  EXPECT_THROW(wrong(x), Error);
}

struct Scale : Layer {
  using Layer::Layer;
  void build(const Spec& x) override { factor = add_variable("factor", {x.shape.last()}, initializers::constant(2)); }
  Tensor call(const Tensor& x) override { return x * factor; }
  Variable factor;
};

TEST(layer, one_of_your_own) {
  Scale scale("scale");
  EXPECT_TRUE(near(scale(tensor({{1.f, 3.f}})), tensor({{2.f, 6.f}}), 0));
  EXPECT_EQ(names_of(scale), std::vector<std::string>{"scale/factor"});
}

TEST(layer, used_twice_it_has_one_set_of_weights) {
  Scale scale;
  GradientTape tape;
  const Tensor y = scale(scale(tensor({{3.f}})));  // 3 f^2, so that dy/df = 6 f = 12
  EXPECT_EQ(scale.variables().size(), 1u);
  EXPECT_TRUE(near(tape.gradient(y, scale.factor), tensor({12.f}), 0));
}

TEST(dense_layer, activations_with_options_of_their_own) {
  const Tensor x = numbers({2, 3});
  Dense soft({.units = 4, .activation = thalweg::softmax}), smooth({.units = 4, .activation = thalweg::gelu});
  EXPECT_TRUE(near(reduce_sum(soft(x), {.axes = -1}), ones({2}, f64), 1e-14));
  smooth(x);
  EXPECT_TRUE(near(smooth(x), gelu(matmul(x, smooth.kernel())), 1e-14));
}

TEST(dense_layer, sixteen_bits_compute_with_rounded_weights) {
  Dense layer({.units = 4});
  const Tensor x = cast(numbers({2, 3}), bf16), y = layer(x);
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_TRUE(testing::same_bits(y, matmul(x, cast(layer.kernel(), bf16)) + zeros({4}, bf16)));
}

TEST(einsum_dense_layer, is_a_dense_layer_with_axes_of_its_own) {
  EinsumDense heads({.equation = "abc,cde->abde", .output_shape = {-1, 2, 5}, .bias_axes = "de"});
  Dense dense({.units = 10});
  const Tensor x = numbers({3, 4, 6}), y = heads(x);
  EXPECT_EQ(y.shape(), (Shape{3, 4, 2, 5}));
  dense.set_weights({{"kernel", reshape(weights_of(heads)["kernel"], {6, 10})}});
  EXPECT_TRUE(near(reshape(y, {3, 4, 10}), dense(x), 1e-14));
  EXPECT_EQ(weights_of(heads)["bias"].shape(), (Shape{2, 5}));
  EinsumDense rows({.equation = "abc,bd->adc", .output_shape = {7, -1}, .bias_axes = "d"});
  EXPECT_EQ(rows(x).shape(), (Shape{3, 7, 6}));
  EXPECT_EQ(weights_of(rows)["bias"].shape(), (Shape{7, 1}));
  for (const char* wrong : {"abc", "...c,cd->...d", "ab,bc->ac", "abc,xd->abd"}) {
    EinsumDense layer({.equation = wrong, .output_shape = {-1, 2}});
    EXPECT_THROW(layer(x), Error) << wrong;
  }
}

TEST(convolution_layer, sizes_are_one_number_or_one_per_axis) {
  Conv2D square({.filters = 3, .kernel_size = 3}), oblong({.filters = 3, .kernel_size = {3, 5}, .strides = {1, 2}});
  const Tensor x = numbers({2, 9, 9, 4});
  EXPECT_EQ(square(x).shape(), (Shape{2, 7, 7, 3}));
  EXPECT_EQ(oblong(x).shape(), (Shape{2, 7, 3, 3}));
  EXPECT_EQ(oblong.kernel().shape(), (Shape{3, 5, 4, 3}));
  Conv2D wrong({.filters = 3, .kernel_size = {3, 3, 3}});
  EXPECT_THROW(wrong(x), Error);
}

TEST(convolution_layer, of_groups_and_of_three_dimensions) {
  Conv2D groups({.filters = 6, .kernel_size = 1, .groups = 2});
  EXPECT_EQ(groups(numbers({1, 3, 3, 4})).shape(), (Shape{1, 3, 3, 6}));
  EXPECT_EQ(groups.kernel().shape(), (Shape{1, 1, 2, 6}));
  Conv3D volume({.filters = 2, .kernel_size = 3, .padding = same});
  EXPECT_EQ(volume(numbers({1, 4, 5, 6, 3})).shape(), (Shape{1, 4, 5, 6, 2}));
  Conv1DTranspose up({.filters = 2, .kernel_size = 4, .strides = 2, .padding = same});
  EXPECT_EQ(up(numbers({1, 5, 3})).shape(), (Shape{1, 10, 2}));
  Conv2D causal({.filters = 2, .causal = true});
  EXPECT_THROW(causal(numbers({1, 4, 5, 3})), Error);
}

TEST(convolution_layer, a_causal_one_sees_nothing_ahead) {
  Conv1D layer({.filters = 2, .kernel_size = 3, .dilations = 2, .causal = true});
  const Tensor x = numbers({1, 8, 3});
  const Tensor whole = layer(x), begin = layer(slice(x, {0, 0, 0}, {1, 5, 3}));
  EXPECT_EQ(whole.shape(), (Shape{1, 8, 2}));
  EXPECT_TRUE(near(slice(whole, {0, 0, 0}, {1, 5, 2}), begin, 1e-14));
}

TEST(pool_layer, serves_one_to_three_dimensions) {
  MaxPool largest;
  AvgPool mean({.size = 3, .strides = 1, .padding = same});
  GlobalMaxPool all({.keepdims = true});
  EXPECT_EQ(largest(numbers({2, 6, 3})).shape(), (Shape{2, 3, 3}));
  EXPECT_EQ(largest(numbers({2, 6, 4, 3})).shape(), (Shape{2, 3, 2, 3}));
  EXPECT_EQ(mean(numbers({2, 6, 4, 4, 3})).shape(), (Shape{2, 6, 4, 4, 3}));
  EXPECT_EQ(all(numbers({2, 6, 4, 3})).shape(), (Shape{2, 1, 1, 3}));
  EXPECT_THROW(largest(numbers({2, 3})), Error);
}

TEST(dropout_layer, drops_in_training_alone) {
  Dropout layer({.rate = 0.25});
  const Tensor x = ones({100, 100});
  EXPECT_TRUE(testing::same_bits(layer(x), x));
  const auto on = training(true);
  const Tensor y = layer(x);
  EXPECT_NEAR(reduce_mean(y).item<float>(), 1, 0.05);
  EXPECT_NEAR(reduce_mean(cast(y == 0, f32)).item<float>(), 0.25, 0.03);
  EXPECT_FALSE(testing::same_bits(layer(x), y));  // another mask at every call
  Dropout wrong({.rate = 1.5});
  EXPECT_THROW(wrong(x), Error);
}

TEST(batch_norm_layer, moving_statistics_follow_in_training_and_rest_when_frozen) {
  BatchNorm layer({.momentum = 0.75});
  const Tensor x = numbers({50, 3}) * 2 + 1;
  layer(x);
  EXPECT_EQ(layer.moving_mean().version(), 0u);
  const auto on = training(true);
  const Tensor y = layer(x);
  const auto [mean, variance] = moments(x, {.axes = 0});
  EXPECT_TRUE(near(layer.moving_mean(), mean * 0.25, 1e-13));
  EXPECT_TRUE(near(layer.moving_variance(), 0.75 + variance * 0.25, 1e-13));
  EXPECT_TRUE(near(reduce_mean(y, {.axes = 0}) + 1, ones({3}, f64), 1e-12));
  layer.set_trainable(false);
  layer(x);
  EXPECT_EQ(layer.moving_mean().version(), 1u);
}

// As if the examples were packed without the padding between them; what lies in the padding is in no statistics.
TEST(batch_norm_layer, a_mask_leaves_padding_out_of_the_statistics) {
  const Tensor mask = tensor({{true, true, false}, {true, false, false}});
  Tensor x = random::normal({2, 3, 4}, {.seed = 1, .dtype = f64});
  x = where(expand_dims(mask, -1), x, 1e300);
  const Tensor packed = concat({slice(x, {0, 0, 0}, {1, 2, 4}), slice(x, {1, 0, 0}, {1, 1, 4})}, 1);
  const auto scope = training(true);
  for (const bool compiled : {false, true}) {
    BatchNorm masked({.momentum = 0.5}), plain({.momentum = 0.5});
    const auto layer = [&](const Tensor& in, const Tensor& keep) { return masked(in, {.mask = keep}); };
    const auto step = function(layer);
    const Tensor y = compiled ? step(x, mask) : layer(x, mask), want = plain(packed);
    EXPECT_TRUE(near(slice(y, {0, 0, 0}, {1, 2, 4}), slice(want, {0, 0, 0}, {1, 2, 4}), 1e-12));
    EXPECT_TRUE(near(masked.moving_mean(), plain.moving_mean(), 1e-12));
    EXPECT_TRUE(near(masked.moving_variance(), plain.moving_variance(), 1e-12));
    const Tensor before = masked.moving_variance();
    layer(x, full({2, 3}, false, boolean));
    EXPECT_TRUE(near(masked.moving_variance(), before, 1e-15));
    EXPECT_THROW(masked(x, {.mask = full({2}, true, boolean)}), Error);
  }
}

TEST(batch_norm_layer, statistics_of_sixteen_bits_are_f32) {
  BatchNorm layer;
  const auto on = training(true);
  EXPECT_EQ(layer(cast(numbers({8, 3}), bf16)).dtype(), bf16);
  EXPECT_EQ(layer.moving_mean().dtype(), f32);
}

TEST(layer_norm_layer, over_axes_that_are_not_the_last) {
  LayerNorm layer({.axes = {1, 2}});
  const Tensor x = numbers({2, 3, 4, 5});
  const auto [mean, variance] = moments(x, {.axes = {1, 2}, .keepdims = true});
  EXPECT_TRUE(near(layer(x), (x - mean) / sqrt(variance + 1e-3), 1e-13));
  EXPECT_EQ(layer.variables()[0].shape(), (Shape{3, 4}));
}

TEST(norm_layers, without_weights) {
  const Tensor x = numbers({4, 3, 6});
  LayerNorm plain({.center = false, .scale = false});
  GroupNorm groups({.groups = 2, .center = false, .scale = false});
  UnitNorm unit;
  EXPECT_TRUE(near(plain(x), layer_norm(x, ones({6}, f64), zeros({6}, f64)), 1e-14));
  EXPECT_EQ(groups(x).shape(), x.shape());
  EXPECT_TRUE(plain.variables().empty() && groups.variables().empty());
  EXPECT_TRUE(near(reduce_sum(square(unit(x)), {.axes = -1}), ones({4, 3}, f64), 1e-14));
}

TEST(normalization_layer, data_in_parts_count_as_one) {
  const Tensor data = numbers({60, 3}) * 5 - 2;
  Normalization whole, parts, back({.invert = true});
  whole.adapt(data);
  parts.adapt(slice(data, {0, 0}, {10, 3}));
  parts.adapt(slice(data, {10, 0}, {50, 3}));
  for (const auto& [name, value] : weights_of(whole)) EXPECT_TRUE(near(weights_of(parts)[name], value, 1e-13)) << name;
  back.adapt(data);
  EXPECT_TRUE(near(back(whole(data)), data, 1e-13));
}

// The variance 666,667 is no f16, and one of 2.5e-11 is 0 there.
TEST(normalization_layer, takes_16_bits_as_their_values) {
  for (const DType dtype : {f16, bf16}) {
    const Tensor large = tensor({{0.f}, {1000.f}, {2000.f}}), small = tensor({{0.f}, {1e-5f}});
    for (const Tensor& data : {large, small}) {
      Normalization exact, rounded, back({.invert = true});
      exact.adapt(cast(cast(data, dtype), f32)), rounded.adapt(cast(data, dtype)), back.adapt(data);
      for (const auto& [name, value] : weights_of(exact))
        EXPECT_TRUE(near(weights_of(rounded)[name], value, 0)) << name;
      const auto compiled = function([&](const Tensor& x) { return rounded(x); });
      for (const Tensor& y : {rounded(cast(data, dtype)), compiled(cast(data, dtype))}) {
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_TRUE(near(cast(y, f32), exact(data), 0.02)) << dtype;
        EXPECT_TRUE(near(cast(back(y), f32), data, 0.02));
      }
    }
  }
}

// Built or not: weights are never made integers.
TEST(layers, with_weights_refuse_integers) {
  Dense dense({.units = 3});
  EinsumDense einsum({.equation = "ab,bc->ac", .output_shape = {3}});
  BatchNorm batch_norm;
  LayerNorm layer_norm;
  Normalization normalization;
  PReLU prelu;
  Conv2D convolution({.filters = 2, .kernel_size = 1});
  LSTM lstm({.units = 2});
  const Tensor rows = numbers({4, 2}), images = numbers({1, 2, 2, 1}), series = numbers({1, 2, 2});
  for (int i = 0; i < 2; ++i) {
    for (Layer* layer :
         std::initializer_list<Layer*>{&dense, &einsum, &batch_norm, &layer_norm, &normalization, &prelu}) {
      EXPECT_THROW((*layer)(cast(rows, i32)), Error) << i;
      (*layer)(rows);
    }
    EXPECT_THROW(convolution(cast(images, u8)), Error) << i;
    EXPECT_THROW(lstm(cast(series, i64)), Error) << i;
    convolution(images), lstm(series);
  }
}

TEST(layers, weights_do_not_stretch_an_input_of_other_sizes) {
  Normalization normalization;
  BatchNorm batch_norm;
  PReLU prelu;
  normalization.adapt(numbers({10, 3}));
  batch_norm(numbers({10, 3})), prelu(numbers({10, 3}));
  const Tensor narrow = numbers({10, 1});
  expect_error(ErrorCode::invalid_argument, {"[normalization]", "[1, 3]", "[10, 1]"}, [&] { normalization(narrow); });
  expect_error(ErrorCode::invalid_argument, {"[normalization]", "[1, 3]", "[1, 1]"},
               [&] { normalization.adapt(narrow); });
  expect_error(ErrorCode::invalid_argument, {"[batch_norm]", "[3]", "[10, 1]"}, [&] { batch_norm(narrow); });
  expect_error(ErrorCode::invalid_argument, {"[prelu]", "[3]", "[10, 1]"}, [&] { prelu(narrow); });
}

TEST(embedding_layer, floats_are_ids_without_their_fractions) {
  Embedding layer({.input_dim = 7, .output_dim = 3});
  EXPECT_TRUE(near(layer(tensor({1.f, 5.9f})), layer(tensor({1, 5})), 0));
}

TEST(embedding_layer, gradients_are_row_sparse_and_the_table_can_be_shared) {
  Embedding layer({.input_dim = 7, .output_dim = 3});
  EXPECT_THROW(layer.attend(ones({1, 3})), Error);
  const Tensor ids = tensor({{1, 5}, {5, 0}});
  GradientTape tape({.persistent = true});
  const Tensor rows = layer(ids), logits = layer.attend(rows);
  EXPECT_EQ(logits.shape(), (Shape{2, 2, 7}));
  const auto variables = layer.trainable_variables();
  EXPECT_TRUE(tape.gradient(rows, variables)[0].is_sparse());
  EXPECT_FALSE(tape.gradient(logits, variables)[0].is_sparse());
  Embedding other({.input_dim = 7, .output_dim = 3});
  EXPECT_THROW(other(ones({2}, boolean)), Error);
}

TEST(activation_layers, slopes_can_be_shared) {
  PReLU layer({.alpha_initializer = initializers::constant(0.5), .shared_axes = {1, 2}});
  const Tensor x = numbers({2, 3, 4, 5});
  EXPECT_TRUE(near(layer(x), leaky_relu(x, 0.5), 1e-15));
  EXPECT_EQ(layer.variables()[0].shape(), (Shape{1, 1, 5}));
}

TEST(attention_layer, groups_of_queries_share_keys_and_values) {
  MultiHeadAttention grouped({.num_heads = 4, .key_dim = 3, .key_value_heads = 2}),
      full({.num_heads = 4, .key_dim = 3});
  const Tensor x = numbers({2, 5, 6});
  const Tensor y = grouped(x, x);
  auto weights = weights_of(grouped);
  EXPECT_EQ(weights["key/kernel"].shape(), (Shape{6, 2, 3}));
  for (const char* name : {"key", "value"}) {
    weights[name + std::string("/kernel")] = repeat(weights[name + std::string("/kernel")], 2, 1);
    weights[name + std::string("/bias")] = repeat(weights[name + std::string("/bias")], 2, 0);
  }
  full.set_weights(weights);
  EXPECT_TRUE(near(full(x, x), y, 1e-13));
}

TEST(attention_layer, a_rate_that_drops_nothing_changes_nothing) {
  MultiHeadAttention layer({.num_heads = 2, .key_dim = 3, .dropout = 1e-12});
  const Tensor x = numbers({2, 5, 6});
  const Tensor mask = where(numbers({2, 5, 5}) > 1.2, zeros({}, boolean), ones({}, boolean));
  const AttentionCall call{.attention_mask = mask, .use_causal_mask = true};
  const Tensor y = layer(x, x, call);
  const auto on = training(true);
  EXPECT_TRUE(near(layer(x, x, call), y, 1e-10));
}

TEST(attention_layer, drops_weights_in_training) {
  MultiHeadAttention layer({.num_heads = 2, .key_dim = 3, .dropout = 0.5, .use_bias = false});
  const Tensor x = numbers({2, 5, 6});
  layer(x, x);
  auto weights = weights_of(layer);
  const auto heads = [&](const char* name) { return einsum("bti,ihd->bhtd", {x, weights[name]}); };
  const Tensor scores = einsum("bhqd,bhkd->bhqk", {heads("query/kernel"), heads("key/kernel")}) / std::sqrt(3.0);
  random::set_seed(3);
  const Tensor o = matmul(dropout(softmax(scores), 0.5), heads("value/kernel"));
  const auto on = training(true);
  random::set_seed(3);
  EXPECT_TRUE(near(layer(x, x), einsum("bhtd,hdo->bto", {o, weights["attention_output/kernel"]}), 1e-13));
}

TEST(attention_layer, dropout_makes_no_matrix_of_weights) {
  constexpr std::int64_t time = 1024, heads = 4, matrices = time * time * heads * 4;
  MultiHeadAttention layer({.num_heads = heads, .key_dim = 4, .dropout = 0.5});
  const Tensor x = random::normal({1, time, 8}, {.seed = 1});
  const auto on = training(true);
  const auto step = [&](const Tensor& y) {
    GradientTape tape;
    tape.watch(y);
    return tape.gradient(reduce_sum(square(layer(y, y))), y);
  };
  step(x);
  config::reset_peak_memory();
  const std::int64_t before = config::memory_info().in_use;
  step(x);
  EXPECT_LT(config::memory_info().peak - before, matrices / 2);
  EXPECT_LT(function(step).plan(x).peak_bytes(), matrices / 2);
}

TEST(attention_layer, one_product_for_queries_keys_and_values) {
  SelfAttention fused({.num_heads = 2, .causal = true});
  MultiHeadAttention apart({.num_heads = 2, .key_dim = 3});
  const Tensor x = numbers({2, 5, 6});
  const Tensor y = fused(x);
  auto weights = weights_of(fused);
  const auto parts = split(weights["qkv/kernel"], 3, 1);
  apart.set_weights({{"query/kernel", reshape(parts[0], {6, 2, 3})},
                     {"key/kernel", reshape(parts[1], {6, 2, 3})},
                     {"value/kernel", reshape(parts[2], {6, 2, 3})},
                     {"attention_output/kernel", reshape(weights["projection/kernel"], {2, 3, 6})}});
  EXPECT_TRUE(near(apart(x, x, {.use_causal_mask = true}), y, 1e-13));
}

TEST(transformer_layer, has_the_weights_of_its_parts) {
  TransformerBlock block({.num_heads = 2});
  EXPECT_EQ(block(numbers({2, 5, 6})).shape(), (Shape{2, 5, 6}));
  std::int64_t count = 0;
  for (const auto& variable : block.variables()) count += variable.shape().size();
  EXPECT_EQ(count, 4 * 6 + 12 * 36 + 9 * 6);  // norms, kernels, biases
}

template <class L>
class recurrent_layer : public ::testing::Test {};
using RecurrentLayers = ::testing::Types<LSTM, GRU, SimpleRNN>;
TYPED_TEST_SUITE(recurrent_layer, RecurrentLayers);

TYPED_TEST(recurrent_layer, a_sequence_in_two_parts_is_the_whole) {
  TypeParam layer({.units = 4, .return_sequences = true});
  const Tensor x = numbers({2, 7, 3});
  const auto whole = layer(x, {});
  const auto first = layer(slice(x, {0, 0, 0}, {2, 3, 3}), {});
  const auto second = layer(slice(x, {0, 3, 0}, {2, 4, 3}), {.initial_state = first.state});
  EXPECT_TRUE(near(concat({first.output, second.output}, 1), whole.output, 1e-13));
  EXPECT_TRUE(near(second.state[0], whole.state[0], 1e-13));
}

TYPED_TEST(recurrent_layer, a_mask_of_all_steps_changes_nothing) {
  for (const bool backwards : {false, true}) {
    TypeParam layer({.units = 4, .return_sequences = true, .go_backwards = backwards});
    const Tensor x = numbers({2, 7, 3});
    EXPECT_TRUE(near(layer(x, {.mask = ones({2, 7}, boolean)}).output, layer(x), 1e-13));
  }
}

TYPED_TEST(recurrent_layer, a_masked_end_leaves_the_state) {
  TypeParam layer({.units = 4});
  const Tensor x = numbers({1, 5, 3});
  const Tensor mask = Tensor::from(std::vector<bool>{true, true, true, false, false}, {1, 5});
  EXPECT_TRUE(near(layer(x, {.mask = mask}).output, layer(slice(x, {0, 0, 0}, {1, 3, 3})), 1e-13));
}

TEST(recurrent_layers, the_forget_gate_starts_open) {
  LSTM layer({.units = 2});
  layer(numbers({1, 3, 3}));
  const Tensor bias = weights_of(layer)["bias"];
  EXPECT_TRUE(near(bias, tensor({0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0}), 0));
  EXPECT_THROW(layer(numbers({1, 3, 3}), {.initial_state = {numbers({1, 2})}}), Error);
}

TEST(up_sampling_layer, nearest_and_bilinear) {
  UpSampling2D nearest({.size = {2, 3}}), smooth({.interpolation = Interpolation::bilinear});
  const Tensor x = numbers({1, 2, 2, 1}, f32);
  EXPECT_EQ(nearest(x).shape(), (Shape{1, 4, 6, 1}));
  EXPECT_EQ(smooth(x).shape(), (Shape{1, 4, 4, 1}));
}

double deviation_of(const Initializer& initializer, const Shape& shape) {
  return reduce_std(initializer(shape, f64)).item<double>();
}

TEST(initializers, deviations_follow_the_fans) {
  using namespace initializers;
  const Shape matrix{300, 200}, kernel{3, 3, 30, 20};  // fans 270 and 180
  EXPECT_NEAR(deviation_of(glorot_uniform, matrix), std::sqrt(2.0 / 500), 1e-3);
  EXPECT_NEAR(deviation_of(glorot_normal(), kernel), std::sqrt(2.0 / 450), 3e-3);
  EXPECT_NEAR(deviation_of(he_normal, matrix), std::sqrt(2.0 / 300), 1e-3);
  EXPECT_NEAR(deviation_of(he_uniform, kernel), std::sqrt(2.0 / 270), 3e-3);
  EXPECT_NEAR(deviation_of(lecun_normal, matrix), std::sqrt(1.0 / 300), 1e-3);
  EXPECT_NEAR(deviation_of(variance_scaling({.fan = Fan::out, .distribution = Distribution::normal}), matrix),
              std::sqrt(1.0 / 200), 1e-3);
  EXPECT_NEAR(deviation_of(random_normal({.stddev = 0.3}), matrix), 0.3, 5e-3);
  EXPECT_LE(reduce_max(abs(truncated_normal()(matrix))).item<float>(), 0.1f);
  EXPECT_LE(reduce_max(abs(random_uniform()(matrix))).item<float>(), 0.05f);
}

TEST(initializers, a_seed_repeats_its_numbers) {
  const auto seeded = initializers::glorot_uniform(7);
  EXPECT_TRUE(testing::same_bits(seeded({4, 5}), seeded({4, 5})));
  EXPECT_FALSE(testing::same_bits(initializers::glorot_uniform()({4, 5}), initializers::glorot_uniform()({4, 5})));
}

TEST(initializers, orthogonal_rows_or_columns) {
  const Tensor wide = initializers::orthogonal()({4, 9}, f64),
               tall = initializers::orthogonal({.gain = 2})({3, 4, 5}, f64);
  EXPECT_TRUE(near(matmul(wide, wide, {.transpose_b = true}), eye(4, -1, f64), 1e-13));
  const Tensor columns = reshape(tall, {12, 5});
  EXPECT_TRUE(near(matmul(columns, columns, {.transpose_a = true}), 4 * eye(5, -1, f64), 1e-13));
  const Tensor square = initializers::orthogonal()({70, 70}, f64);  // more than one block
  EXPECT_TRUE(near(matmul(square, square, {.transpose_b = true}), eye(70, -1, f64), 1e-13));
  EXPECT_THROW(initializers::orthogonal()({4}), Error);
}

TEST(regularizers, penalties) {
  const Tensor w = tensor({1.0, -3.0});
  EXPECT_DOUBLE_EQ(regularizers::l1(0.5)(w).item<double>(), 2);
  EXPECT_DOUBLE_EQ(regularizers::l2(0.5)(w).item<double>(), 5);
  EXPECT_DOUBLE_EQ(regularizers::l1_l2(1, 2)(w).item<double>(), 24);
}

}  // namespace
}  // namespace thalweg::nn
