// Numbers, names and functions that cannot be meant: random draws, matrices, windows, control flow, devices, threads.
#include "tests/errors/mistake.h"

namespace {

using enum tw::ErrorCode;

// clang-format off
const std::vector<Mistake> draws{
    {"a_probability_above_one",
     [] { tw::random::bernoulli({3}, {.probability = 1.5}); },
     invalid_argument, "bernoulli", {"expected a probability of 0 to 1", "got 1.5", "[0, 1]"}},
    {"uniform_with_low_above_high",
     [] { tw::random::uniform({3}, {.low = 2, .high = 1}); },
     invalid_argument, "uniform", {"expected low <= high", "got 2 and 1", "swap"}},
    {"uniform_integers_beyond_the_dtype",
     [] { tw::random::uniform({3}, {.low = 0, .high = 300, .dtype = tw::u8}); },
     invalid_argument, "uniform", {"expected bounds within the numbers of u8", "got 0 and 300", "wider dtype"}},
    {"uniform_integers_from_an_empty_range",
     [] { tw::random::uniform({3}, {.low = 4, .high = 4, .dtype = tw::i32}); },
     invalid_argument, "uniform", {"expected a whole number in [4, 4)", "got none", "high > low"}},
    {"normal_numbers_as_integers",
     [] { tw::random::normal({3}, {.dtype = tw::i64}); },
     invalid_argument, "normal", {"expected a float dtype", "got i64", "cast"}},
    {"a_permutation_of_a_negative_number",
     [] { tw::random::permutation(-1); },
     invalid_argument, "permutation", {"expected 0 or more", "got -1"}},
    {"a_dropout_rate_in_percent",
     [] { tw::dropout(tw::ones({3}), 50); },
     invalid_argument, "dropout", {"expected a rate of 0 to 1", "got 50", "fraction"}},
};
MISTAKES(draws, draws);

const std::vector<Mistake> matrices{
    {"cholesky_of_an_indefinite_matrix",
     [] { tw::cholesky(tw::tensor({{1.f, 2.f}, {2.f, 1.f}})); },
     invalid_argument, "cholesky",
     {"matrix 0 is not positive definite", "expected pivots above 0", "got -3 in row 1", "multiple of the identity"}},
    {"inverse_of_a_singular_matrix",
     [] { tw::matrix_inverse(tw::stack({tw::eye(2), tw::ones({2, 2})})); },
     invalid_argument, "matrix_inverse",
     {"matrix 1 is singular", "expected pivots other than 0", "got 0 in row 1", "multiple of the identity"}},
    {"inverse_of_integers",
     [] { tw::matrix_inverse(tw::tensor({{1, 0}, {0, 1}})); },
     invalid_argument, "matrix_inverse", {"expected a float dtype", "got i32", "tw::cast"}},
    {"a_norm_of_order_zero",
     [] { tw::norm(tw::ones({3}), {.order = 0}); },
     invalid_argument, "norm", {"expected an order above 0", "got 0", "infinity"}},
    {"clipping_to_a_negative_norm",
     [] { tw::clip_by_norm(tw::ones({3}), -1); },
     invalid_argument, "clip_by_norm", {"expected a bound above 0", "got -1"}},
};
MISTAKES(matrices, matrices);

const std::vector<Mistake> windows{
    {"a_pooling_window_larger_than_the_image",
     [] { tw::max_pool(tw::zeros({1, 4, 4, 2}), {.size = {5}}); },
     invalid_argument, "max_pool", {"a window of 5 taps (dilation 1) covers 5", "expected at most 4", "tw::same"}},
    {"a_kernel_that_dilation_makes_larger_than_the_image",
     [] { tw::conv2d(tw::zeros({1, 4, 4, 1}), tw::zeros({3, 3, 1, 1}), {.dilations = {2}}); },
     invalid_argument, "conv2d", {"a window of 3 taps (dilation 2) covers 5", "expected at most 4", "tw::same"}},
    {"a_stride_of_zero",
     [] { tw::avg_pool(tw::zeros({1, 4, 4, 2}), {.strides = {0}}); },
     invalid_argument, "avg_pool", {"expected strides of at least 1", "got [0, 0]"}},
    {"a_dilation_whose_reach_overflows",
     [] { tw::conv1d(tw::zeros({1, 4, 1}), tw::zeros({5, 1, 1}), {.dilations = {1LL << 62}}); },
     invalid_argument, "conv1d", {"expected dilations of at most 2147483647", "got [4611686018427387904]"}},
    {"strides_for_three_of_two_axes",
     [] { tw::max_pool(tw::zeros({1, 4, 4, 2}), {.strides = {1, 2, 3}}); },
     invalid_argument, "max_pool", {"expected 2 strides (or 1)", "got [1, 2, 3]", "one for each"}},
    {"a_transposed_convolution_to_a_shape_it_cannot_have",
     [] {
       const tw::Tensor x = tw::zeros({1, 4, 4, 3}), kernel = tw::zeros({2, 2, 8, 3});
       tw::conv2d_transpose(x, kernel, {1, 9, 9, 8}, {.strides = {2}, .padding = tw::same});
     },
     invalid_argument, "conv2d_transpose",
     {"expected x [1, 5, 5, 3] for an output [1, 9, 9, 8]", "got [1, 4, 4, 3]", "output_shape"}},
    {"an_image_resized_to_nothing",
     [] { tw::resize_bilinear(tw::zeros({1, 4, 4, 3}), {0, 8}); },
     invalid_argument, "resize_bilinear", {"expected two sizes of at least 1", "got [0, 8]", "{height, width}"}},
    {"align_corners_together_with_half_pixel_centers",
     [] { tw::resize_bilinear(tw::zeros({1, 4, 4, 3}), {8, 8}, {.align_corners = true}); },
     invalid_argument, "resize_bilinear",
     {"expected one of align_corners and half_pixel_centers", "got both", ".half_pixel_centers = false"}},
    {"depth_to_space_of_channels_that_hold_no_blocks",
     [] { tw::depth_to_space(tw::zeros({1, 4, 4, 6}), 2); },
     invalid_argument, "depth_to_space", {"expected channels that are a multiple of 4", "got [1, 4, 4, 6]"}},
    {"group_norm_of_groups_that_do_not_divide_the_channels",
     [] { tw::group_norm(tw::zeros({1, 4, 6}), tw::ones({6}), tw::zeros({6}), {.groups = 4}); },
     invalid_argument, "group_norm",
     {"expected groups that divide the 6 channels of x [1, 4, 6]", "got 4", "multiple of groups"}},
};
MISTAKES(windows, windows);

const std::vector<Mistake> control_flow{
    {"cond_on_a_number",
     [] { tw::cond(tw::tensor(1.f), [] { return tw::ones({2}); }, [] { return tw::zeros({2}); }); },
     invalid_argument, "cond", {"expected a boolean scalar", "got f32 []", "tw::reduce_all(x > 0)"}},
    {"cond_on_a_vector",
     [] { tw::cond(tw::tensor({1.f, 2.f}) > 0, [] { return tw::ones({2}); }, [] { return tw::zeros({2}); }); },
     invalid_argument, "cond", {"expected a boolean scalar", "got boolean [2]", "tw::reduce_all(x > 0)"}},
    {"while_loop_whose_condition_is_a_number",
     [] { tw::while_loop([](const auto& v) { return v[0]; }, [](const auto& v) { return v; }, {tw::tensor(1.f)}); },
     invalid_argument, "while_loop", {"expected a boolean scalar", "got f32 []"}},
    {"while_loop_whose_body_loses_a_variable",
     [] {
       const auto body = [](const auto& v) { return std::vector<tw::Tensor>{v[0] + 1}; };
       tw::while_loop([](const auto& v) { return v[0] < 3; }, body, {tw::tensor(0), tw::zeros({2})});
     },
     invalid_argument, "while_loop", {"expected 2 values", "got 1", "one value for each loop variable"}},
    {"while_loop_whose_variable_grows",
     [] {
       const auto body = [](const auto& v) { return std::vector<tw::Tensor>{tw::concat({v[0], v[0]}, 0)}; };
       tw::while_loop([](const auto& v) { return tw::reduce_sum(v[0]) < 3.f; }, body, {tw::zeros({2})});
     },
     invalid_argument, "while_loop",
     {"loop variable 0 changed: expected f32 [2]", "got f32 [4]", "keeps its dtype and shape"}},
    {"scan_over_sequences_of_different_lengths",
     [] {
       const auto keep = [](const auto& carry, const auto&) { return carry; };
       tw::scan(keep, {tw::zeros({})}, {tw::zeros({3}), tw::zeros({4})});
     },
     invalid_argument, "scan", {"expected equal leading sizes", "got [3] and [4]", "leading axis"}},
};
MISTAKES(control_flow, control_flow);

const std::vector<Mistake> machines{
    {"a_tensor_for_a_tpu",
     [] { tw::zeros({2}).to("tpu:0"); },
     not_found, "device", {"expected one of this machine (cpu:0", "got \"tpu:0\"", "Device(\"cpu:0\")"}},
    {"a_device_number_that_no_machine_has",
     [] { tw::Device("cuda:4096"); },
     not_found, "device", {"expected one of this machine", "got \"cuda:4096\""}},
    {"a_device_name_that_means_nothing",
     [] { tw::config::memory_info("the fast one"); },
     not_found, "device", {"expected one of this machine", "got \"the fast one\"", "Device(\"cpu:0\")"}},
    {"a_negative_number_of_threads",
     [] { tw::config::set_threads(-1); },
     invalid_argument, "set_threads", {"expected 0 to 4096 threads", "got -1", "number of cores"}},
    {"a_pool_without_threads",
     [] { tw::make_thread_pool(0); },
     invalid_argument, "make_thread_pool", {"expected 1 to 4096 threads", "got 0"}},
    {"a_negative_memory_limit",
     [] { tw::config::memory_limit("cpu:0", -1); },
     invalid_argument, "memory_limit", {"expected a limit of 0 or more", "got -1", "tw::GiB(2)"}},
};
MISTAKES(machines, machines);
// clang-format on

TEST(machines, a_refused_number_of_threads_leaves_the_old_one) {
  const int threads = tw::config::threads();
  error_of([] { tw::config::set_threads(5000); });
  EXPECT_EQ(tw::config::threads(), threads);
}

TEST(draws, a_refused_draw_takes_no_numbers_from_the_others) {
  tw::random::set_seed(7);
  const auto expected = tw::random::normal({4}).to_vector<float>();
  tw::random::set_seed(7);
  error_of([] { tw::random::uniform({3}, {.low = 2, .high = 1}); });
  error_of([] { tw::random::bernoulli({3}, {.probability = -1}); });
  error_of([] { tw::random::uniform({3}, {.low = 4, .high = 4, .dtype = tw::i32}); });
  error_of([] { tw::random::normal({3}, {.dtype = tw::i64}); });
  error_of([] { tw::dropout(tw::ones({3}), 50); });
  EXPECT_EQ(tw::random::normal({4}).to_vector<float>(), expected);
}

}  // namespace
