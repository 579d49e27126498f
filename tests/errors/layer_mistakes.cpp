// Layers with options or inputs that do not fit.
#include <limits>

#include "tests/errors/mistake.h"

namespace {

using enum tw::ErrorCode;

// A layer in a model, so that errors can name it.
template <class L, class Options>
void call(const Options& options, const tw::Tensor& x) {
  tw::nn::Module model;
  L layer(model, "head", options);
  layer(x);
}

// clang-format off
const std::vector<Mistake> layers{
    {"dense_without_units",
     [] { call<tw::nn::Dense>(tw::nn::DenseOptions{}, tw::zeros({2, 3})); },
     invalid_argument, "dense", {"expected units above 0", "got 0", "layer \"head\"", ".units = 10"}},
    {"dense_of_a_vector",
     [] { call<tw::nn::Dense>(tw::nn::DenseOptions{.units = 2}, tw::zeros({3})); },
     invalid_argument, "dense", {"rank 2 or more", "got [3]", "layer \"head\"", "expand_dims"}},
    {"dense_of_integers",
     [] { call<tw::nn::Dense>(tw::nn::DenseOptions{.units = 2}, tw::zeros({2, 3}, tw::u8)); },
     invalid_argument, "layer", {"floats", "got [2, 3] u8", "layer \"head\"", "tw::cast"}},
    {"dense_of_another_size_than_it_was_built_for",
     [] {
       tw::nn::Module model;
       tw::nn::Dense layer(model, "head", {.units = 2});
       layer(tw::zeros({4, 3}));
       layer(tw::zeros({4, 5}));
     },
     invalid_argument, "matmul", {"a [4, 5] has 5", "b [3, 2] has 3", "layer \"head\""}},
    {"convolution_of_an_image_without_channels",
     [] { call<tw::nn::Conv2D>(tw::nn::ConvOptions{.filters = 4, .kernel_size = 3}, tw::zeros({2, 8, 8})); },
     invalid_argument, "conv2d", {"rank 4", "got [2, 8, 8]", "layer \"head\"", "expand_dims"}},
    {"convolution_with_groups_that_do_not_divide",
     [] { call<tw::nn::Conv2D>(tw::nn::ConvOptions{.filters = 4, .groups = 3}, tw::zeros({2, 8, 8, 6})); },
     invalid_argument, "conv2d", {"groups that divide 6 channels and 4 filters", "got 3"}},
    {"convolution_with_too_many_kernel_sizes",
     [] { call<tw::nn::Conv1D>(tw::nn::ConvOptions{.filters = 4, .kernel_size = {3, 3}}, tw::zeros({2, 8, 6})); },
     invalid_argument, "conv1d", {"kernel_size of 1 numbers", "got [3, 3]"}},
    {"attention_to_values_of_another_size_than_it_was_built_for",
     [] {
       tw::nn::MultiHeadAttention layer({.num_heads = 2, .key_dim = 3, .name = "head"});
       layer(tw::zeros({1, 2, 4}), tw::zeros({1, 5, 4}));
       layer(tw::zeros({1, 2, 4}), tw::zeros({1, 5, 6}));
     },
     invalid_argument, "projection", {"input with 4 features", "got [1, 5, 6]", "layer \"head/key\""}},
    {"attention_of_a_query_without_time",
     [] {
       tw::nn::MultiHeadAttention layer({.num_heads = 2, .key_dim = 3, .name = "head"});
       layer(tw::zeros({1, 2, 4}), tw::zeros({1, 5, 4}));
       layer(tw::zeros({2, 4}), tw::zeros({1, 5, 4}));
     },
     invalid_argument, "multi_head_attention", {"query of rank 3", "got [2, 4]", "layer \"head\""}},
    {"batch_norm_with_a_negative_epsilon",
     [] { call<tw::nn::BatchNorm>(tw::nn::BatchNormOptions{.epsilon = -1}, tw::zeros({2, 3})); },
     invalid_argument, "batch_norm", {".epsilon of 0 or more", "got -1", "layer \"head\""}},
    {"batch_norm_with_a_momentum_above_one",
     [] { call<tw::nn::BatchNorm>(tw::nn::BatchNormOptions{.momentum = 99}, tw::zeros({2, 3})); },
     invalid_argument, "batch_norm", {".momentum between 0 and 1", "got 99", "layer \"head\""}},
    {"variance_scaling_by_a_negative_scale",
     [] { tw::nn::initializers::variance_scaling({.scale = -2}); },
     invalid_argument, "variance_scaling", {".scale above 0", "got -2"}},
    {"embedding_of_booleans",
     [] {
       call<tw::nn::Embedding>(tw::nn::EmbeddingOptions{.input_dim = 4, .output_dim = 2}, tw::zeros({2}, tw::boolean));
     },
     invalid_argument, "embedding", {"ids that are numbers", "got [2] boolean", "tw::cast"}},
    {"dropout_of_more_than_all",
     [] { call<tw::nn::Dropout>(tw::nn::DropoutOptions{.rate = 1.5}, tw::zeros({2})); },
     invalid_argument, "dropout", {"a rate from 0 to 1", "got 1.5"}},
    {"heads_that_do_not_share_the_features",
     [] { call<tw::nn::SelfAttention>(tw::nn::SelfAttentionOptions{.num_heads = 4}, tw::zeros({2, 3, 6})); },
     invalid_argument, "self_attention", {"num_heads that divide 6", "got 4"}},
    {"group_norm_of_a_number_behind_an_image",
     [] {
       tw::nn::GroupNorm layer({.groups = 2, .scale = false, .name = "head"});
       layer(tw::zeros({2, 4}));
       layer(tw::zeros({}));
     },
     invalid_argument, "group_norm", {"rank 2 or more", "got []", "layer \"head\""}},
    {"self_attention_of_a_matrix_behind_a_sequence",
     [] {
       tw::nn::SelfAttention layer({.num_heads = 2, .name = "head"});
       layer(tw::zeros({1, 3, 4}));
       layer(tw::zeros({3, 4}));
     },
     invalid_argument, "self_attention", {"rank 3", "got [3, 4]", "layer \"head\""}},
    {"a_negative_number_of_heads",
     [] {
       tw::nn::MultiHeadAttention layer({.num_heads = -2, .key_dim = 3, .name = "head"});
       layer(tw::zeros({1, 2, 4}), tw::zeros({1, 2, 4}));
     },
     invalid_argument, "multi_head_attention", {"num_heads, key_dim and value_dim above 0", "got -2, 3 and 3"}},
    {"a_bias_along_an_axis_that_the_result_lacks",
     [] {
       call<tw::nn::EinsumDense>(
           tw::nn::EinsumDenseOptions{.equation = "ab,bc->ac", .output_shape = {3}, .bias_axes = "b"}, tw::zeros({2, 4}));
     },
     invalid_argument, "einsum_dense", {".bias_axes with letters of \"ac\"", "got \"b\"", "layer \"head\""}},
    {"an_output_shape_that_x_contradicts",
     [] {
       call<tw::nn::EinsumDense>(tw::nn::EinsumDenseOptions{.equation = "abc,cd->abd", .output_shape = {1, 7}},
                                 tw::zeros({3, 4, 2}));
     },
     invalid_argument, "einsum_dense", {"4 for \"b\" in output_shape", "x [3, 4, 2]", "got 1"}},
    {"an_id_that_is_no_number",
     [] {
       call<tw::nn::Embedding>(tw::nn::EmbeddingOptions{.input_dim = 4, .output_dim = 2},
                               tw::tensor({1.f, std::numeric_limits<float>::quiet_NaN()}));
     },
     out_of_range, "embedding_lookup", {"at position [1]", "0 to 3", "layer \"head\""}},
    {"a_state_for_another_batch",
     [] {
       tw::nn::SimpleRNN layer({.units = 3, .name = "head"});
       layer(tw::zeros({1, 4, 2}), {.initial_state = {tw::zeros({5, 3})}});
     },
     invalid_argument, "recurrent", {"initial states [1, 3]", "x [1, 4, 2]", "got [5, 3]", "layer \"head\""}},
    {"an_lstm_of_a_matrix",
     [] { call<tw::nn::LSTM>(tw::nn::RecurrentOptions{.units = 4}, tw::zeros({2, 3})); },
     invalid_argument, "recurrent", {"rank 3", "got [2, 3]", "[batch, time, features]"}},
    {"a_body_that_changes_the_shape",
     [] { call<tw::nn::Residual>(tw::nn::ResidualOptions{.body = {tw::nn::dense(2)}}, tw::zeros({2, 3})); },
     invalid_argument, "residual", {"[2, 3] as the shortcut does", "got [2, 2]"}},
    {"two_modules_of_one_name",
     [] {
       tw::nn::Module model("net");
       const tw::nn::Module a(model, "block"), b(model, "block");
     },
     invalid_argument, "module", {"a new name in module \"net\"", "got \"block\" again"}},
    {"weights_of_another_size",
     [] {
       tw::nn::Dense layer({.units = 2});
       layer.set_weights({{"kernel", tw::zeros({4, 2})}});
       layer(tw::zeros({1, 3}));
     },
     invalid_argument, "set_weights", {"\"kernel\"", "shape [3, 2]", "got [4, 2]"}},
};
MISTAKES(layers, layers);
// clang-format on

}  // namespace
