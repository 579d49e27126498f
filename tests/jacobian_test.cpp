// Jacobians whose backward passes run together: what they share, what they hold, and what cannot be shared.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/values.h"
#include "thalweg/autodiff/custom_gradient.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/autodiff/transforms.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/convolution/convolution.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/dropout/dropout.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/one_hot/one_hot.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/transpose/transpose.h"
#include "thalweg/plan/function.h"

namespace thalweg {
namespace {

using testing::near;
using List = std::vector<Tensor>;

Tensor normal(const Shape& shape, std::int64_t seed) { return random::normal(shape, {.seed = seed, .dtype = f64}); }

// A backward pass for each output, one after the other.
Tensor by_single_passes(GradientTape& tape, const Tensor& y, const Tensor& x) {
  List rows;
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const Tensor seed = reshape(one_hot(scalar(i, i64), y.size(), {.dtype = y.dtype()}), y.shape());
    rows.push_back(tape.gradient(y, x, {.output_gradients = {seed}}));
  }
  return reshape(stack(rows, 0), concatenate(y.shape(), x.shape()));
}

void expect_right(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = f(x);
  const auto unrecorded = tape.stop_recording();
  EXPECT_TRUE(near(tape.jacobian(y, x), by_single_passes(tape, y, x), 1e-12));
}

// The ops that a jacobian of so many outputs runs.
std::int64_t ops_for(std::int64_t outputs, const std::function<Tensor(const Tensor&)>& f) {
  const Tensor x = normal({3, 8}, 1), w = normal({8, outputs}, 2);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(matmul(x, w));
  const auto before = executed_ops();
  tape.jacobian(y, x);
  return executed_ops() - before;
}

TEST(jacobian, ops_run_once_for_all_outputs) {
  const auto net = [](const Tensor& t) { return tanh(t) + reduce_sum(t * t, {.axes = 1, .keepdims = true}); };
  ops_for(20, net);  // derivatives are written down when they are first met
  EXPECT_EQ(ops_for(20, net), ops_for(40, net));
}

TEST(jacobian, by_variables) {
  const Variable w(normal({4, 3}, 1), {.name = "w"});
  const Tensor x = normal({5, 4}, 2);
  GradientTape tape({.persistent = true});
  const Tensor y = tanh(matmul(x, w)) + reduce_mean(w);
  const auto unrecorded = tape.stop_recording();
  const Tensor got = tape.jacobian(y, w);
  ASSERT_EQ(got.shape(), (Shape{5, 3, 4, 3}));
  for (std::int64_t i : {0, 7, 14}) {
    const Tensor seed = reshape(one_hot(scalar(i, i64), 15, {.dtype = f64}), y.shape());
    const Tensor want = tape.gradient(y, w, {.output_gradients = {seed}});
    EXPECT_TRUE(near(reshape(gather(reshape(got, {15, 12}), scalar(i, i64)), {4, 3}), want, 1e-12));
  }
}

TEST(jacobian, of_layers_whose_rules_have_kernels_of_their_own) {
  const Tensor filter = normal({3, 3, 2, 4}, 3);
  expect_right([&](const Tensor& x) { return conv2d(x, filter); }, normal({2, 4, 4, 2}, 1));
  expect_right([&](const Tensor& w) { return reduce_sum(conv2d(normal({2, 4, 4, 2}, 1), w), {.axes = 0}); }, filter);
  expect_right([](const Tensor& x) { return attention(x, x, x); }, normal({1, 2, 5, 4}, 4));
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{2, 0, 2}, {3});
  expect_right([&](const Tensor& table) { return gather(table, ids); }, normal({4, 3}, 5));
}

TEST(jacobian, the_mask_of_a_dropout_is_that_of_the_forward_pass) {
  expect_right([](const Tensor& x) { return dropout(x * x, 0.5, {.seed = 7}); }, normal({4, 6}, 1));
  expect_right([](const Tensor& x) { return attention(x, x, x, {.dropout = 0.5, .seed = 7}); },
               normal({1, 2, 5, 4}, 4));
}

TEST(jacobian, rules_of_the_host_program_see_one_seed_at_a_time) {
  const auto squared = [](const Tensor& x) {
    return custom_gradient(
        [](const List& in) {
          const auto rule = [x = in[0]](const Tensor& dy) {
            const bool any = reduce_sum(abs(dy)).item<double>() != 0;  // reads values, and leaves some seeds out
            return List{any ? 2 * x * dy : Tensor()};
          };
          return std::pair{in[0] * in[0], rule};
        },
        {x});
  };
  const Tensor x = normal({6}, 1);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = concat({sin(x), squared(x)}, 0);
  const Tensor got = tape.jacobian(y, x);
  const Tensor eye = one_hot(arange(6), 6, {.dtype = f64});
  EXPECT_TRUE(near(got, concat({eye * cos(x), eye * (2 * x)}, 0), 1e-12));
}

TEST(jacobian, through_recomputation_and_compiled_functions) {
  const auto block = [](const Tensor& x) { return tanh(x) * reduce_sum(x); };
  expect_right([&](const Tensor& x) { return recompute(block)(x); }, normal({3, 4}, 1));
  const auto compiled = function(block);
  expect_right([&](const Tensor& x) { return Tensor(compiled(x)); }, normal({3, 4}, 2));
}

TEST(jacobian, in_a_compiled_function) {
  const Tensor w = normal({4, 5}, 1), x = normal({3, 4}, 2);
  const auto jacobian = [&](const Tensor& in) {
    GradientTape tape;
    tape.watch(in);
    return tape.jacobian(tanh(matmul(in, w)), in);
  };
  const auto compiled = function(jacobian);
  EXPECT_TRUE(near(compiled(x), jacobian(x), 1e-12));
  EXPECT_LT(nlohmann::json::parse(compiled.plan(x).json())["nodes"].get<int>(), 40);
}

TEST(jacobian, hessians) {
  const Tensor a = normal({7, 7}, 1), x = normal({7}, 2);
  const auto f = [&](const Tensor& t) {
    const Tensor column = expand_dims(t, -1);
    return reduce_sum(matmul(column, matmul(a, column), {.transpose_a = true})) + reduce_sum(t * t * t);
  };
  const Tensor eye = one_hot(arange(7), 7, {.dtype = f64});
  EXPECT_TRUE(near(hessian(f, x), a + transpose(a) + eye * (6 * x), 1e-12));
}

TEST(jacobian, a_limit_of_memory_makes_the_chunks_smaller) {
  const Tensor w = normal({256, 512}, 1), x = normal({1, 256}, 2);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = tanh(matmul(x, w));
  const auto unrecorded = tape.stop_recording();
  const Tensor want = tape.jacobian(y, x);
  config::memory_limit(Device(), config::memory_info().in_use + want.spec().bytes() + KiB(64));
  const Tensor got = tape.jacobian(y, x);
  config::memory_limit(Device(), 0);
  EXPECT_TRUE(near(got, want, 1e-12));
}

TEST(jacobian, tensors_of_as_many_axes_as_there_can_be) {
  expect_right([](const Tensor& x) { return reshape(sin(reshape(x, {1, 1, 2, 1, 1, 3, 1, 1})), {6}); }, normal({6}, 1));
}

TEST(jacobian, per_example) {
  const Tensor x = normal({9, 4}, 1), w = normal({4, 3}, 2);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = sin(matmul(x, w)) * reduce_sum(x, {.axes = 1, .keepdims = true});
  const auto unrecorded = tape.stop_recording();
  const Tensor got = tape.batch_jacobian(y, x), full = tape.jacobian(y, x);
  ASSERT_EQ(got.shape(), (Shape{9, 3, 4}));
  const auto rows = got.to_vector<double>(), all = full.to_vector<double>();
  for (std::size_t n = 0; n < 9; ++n)
    for (std::size_t out = 0; out < 3; ++out)
      for (std::size_t in = 0; in < 4; ++in)
        EXPECT_NEAR(rows[(n * 3 + out) * 4 + in], all[((n * 3 + out) * 9 + n) * 4 + in], 1e-12);
}

}  // namespace
}  // namespace thalweg
