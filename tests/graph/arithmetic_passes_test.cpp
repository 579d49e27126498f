// Passes that save arithmetic: products of equal rows, relus after a pool.
#include "tests/graph/pass_testing.h"
#include "thalweg/graph/passes/passes.h"

namespace thalweg {
namespace {

using testing::expect_pass, testing::traced;
using List = testing::List;

TEST(Passes, multiply_once_takes_one_of_equal_rows) {
  const Graph graph = traced({{f32, {3}}, {f32, {3, 2}}, {f32, {2, 3}}}, [](const List& x) {
    const Tensor rows = broadcast_to(x[0], {4, 3}), columns = broadcast_to(reshape(x[0], {3, 1}), {3, 3});
    return List{matmul(rows, x[1]), matmul(columns, x[1]), matmul(x[2], rows, {.transpose_b = true}),
                matmul(full({50, 3}, 2, f32), x[1])};
  });
  expect_pass(multiply_once, graph, R"(
function "f" (%0 f32 [3], %1 f32 [3, 2], %2 f32 [2, 3])
%3 f32 [4, 3] = broadcast_to %0 {shape = [4, 3]}
%4 f32 [3, 1] = reshape %0 {shape = [3, 1]}
%5 f32 [3, 3] = broadcast_to %4 {shape = [3, 3]}
%6 f32 [4, 2] = matmul %3 %1 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%7 f32 [3, 2] = matmul %5 %1 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%8 f32 [2, 4] = matmul %2 %3 {transpose_a = 0, transpose_b = 1, wide_result = 0}
%9 f32 [50, 3] = fill {shape = [50, 3], dtype = 0, real = 2, integer = 2, is_integer = 1}
%10 f32 [50, 2] = matmul %9 %1 {transpose_a = 0, transpose_b = 0, wide_result = 0}
return %6, %7, %8, %10
)",
              R"(
function "f" (%0 f32 [3], %1 f32 [3, 2], %2 f32 [2, 3])
%3 f32 [4, 3] = broadcast_to %0 {shape = [4, 3]}
%4 f32 [3, 1] = reshape %0 {shape = [3, 1]}
%5 f32 [3, 3] = broadcast_to %4 {shape = [3, 3]}
%11 f32 [1, 3] = reshape %0 {shape = [1, 3]}
%12 f32 [1, 2] = matmul %11 %1 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%6 f32 [4, 2] = broadcast_to %12 {shape = [4, 2]}
%7 f32 [3, 2] = matmul %5 %1 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%8 f32 [2, 4] = matmul %2 %3 {transpose_a = 0, transpose_b = 1, wide_result = 0}
%13 f32 [1, 3] = fill {shape = [1, 3], dtype = 0, real = 2, integer = 2, is_integer = 1}
%14 f32 [1, 2] = matmul %13 %1 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%10 f32 [50, 2] = broadcast_to %14 {shape = [50, 2]}
return %6, %7, %8, %10
)");
}

TEST(Passes, simplify_reduces_nothing_by_a_view) {
  const Graph graph = traced({{f32, {4, 1}}, {f32, {1}}}, [](const List& x) {
    return List{reduce_mean(x[0], {.axes = -1}), reduce_sum(x[0]), reshape(broadcast_to(x[1], {6}), {2, 3})};
  });
  expect_pass(simplify, graph, R"(
function "f" (%0 f32 [4, 1], %1 f32 [1])
%2 f32 [4] = reduce_mean %0 {axes = 0, axes = [-1], keepdims = 0, wide_result = 0}
%3 f32 [] = reduce_sum %0 {axes = 1, keepdims = 0, wide_result = 0}
%4 f32 [6] = broadcast_to %1 {shape = [6]}
%5 f32 [2, 3] = reshape %4 {shape = [2, 3]}
return %2, %3, %5
)",
              R"(
function "f" (%0 f32 [4, 1], %1 f32 [1])
%2 f32 [4] = reshape %0 {shape = [4]}
%3 f32 [] = reduce_sum %0 {axes = 1, keepdims = 0, wide_result = 0}
%5 f32 [2, 3] = broadcast_to %1 {shape = [2, 3]}
return %2, %3, %5
)");
}

TEST(Passes, pool_first_takes_the_relu_of_the_largest) {
  const Graph graph = traced({{f32, {1, 4, 4, 2}}, {f32, {1, 2, 2, 2}}}, [](const List& x) {
    GradientTape tape;
    tape.watch(x[0]);
    const Tensor y = max_pool(relu(x[0]));
    const Tensor elsewhere = relu(x[1]);
    return List{y, tape.gradient(y, x[0], {.output_gradients = {x[1]}}), max_pool(elsewhere), elsewhere};
  });
  expect_pass(pool_first, graph, R"(
function "f" (%0 f32 [1, 4, 4, 2], %1 f32 [1, 2, 2, 2])
%2 f32 [1, 4, 4, 2] = relu %0
%3 f32 [1, 2, 2, 2] = max_pool %2 {size = [2], strides = [], padding = 0}
%4 f32 [1, 2, 2, 2] = relu %1
%5 f32 [1, 4, 4, 2] = max_pool_backward %2 %1 {size = [2], strides = [], padding = 0}
%6 f32 [1, 4, 4, 2] = fused %2 %5 {inputs = 2, constants = [0], rows = "greater where", operands = [0, 2, -1, 3, 1, 2], outputs = [4], dtypes = []}
%7 f32 [1, 1, 1, 2] = max_pool %4 {size = [2], strides = [], padding = 0}
return %3, %6, %7, %4
)",
              R"(
function "f" (%0 f32 [1, 4, 4, 2], %1 f32 [1, 2, 2, 2])
%8 f32 [1, 2, 2, 2] = max_pool %0 {size = [2], strides = [], padding = 0}
%9 f32 [1, 2, 2, 2] = relu %8
%4 f32 [1, 2, 2, 2] = relu %1
%10 f32 [1, 2, 2, 2] = fused %9 %1 {inputs = 2, constants = [0], rows = "greater where", operands = [0, 2, -1, 3, 1, 2], outputs = [4], dtypes = []}
%11 f32 [1, 4, 4, 2] = max_pool_backward %0 %10 {size = [2], strides = [], padding = 0}
%7 f32 [1, 1, 1, 2] = max_pool %4 {size = [2], strides = [], padding = 0}
return %9, %11, %7, %4
)");
}

// Windows that overlap, equal elements, none above zero, padding: compiled and eager agree to the bit.
TEST(Passes, pool_first_keeps_every_bit) {
  Variable x(round(random::uniform({2, 9, 9, 3}, {.low = -3, .high = 3, .seed = 1})), {.name = "x"});
  for (const Pool& pool :
       {Pool{}, Pool{.size = {3}, .strides = {2}, .padding = same}, Pool{.size = {3}, .strides = {1}}}) {
    const auto step = [&](const Tensor& scale) {
      GradientTape tape;
      const Tensor y = max_pool(relu(x), pool), loss = reduce_sum(y * scale);
      return List{y, tape.gradient(loss, x)};
    };
    const Tensor scale = full({1}, 0.3, f32);
    const List want = step(scale), got = function(step, {.name = "pools"})(scale);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].to_vector<float>(), want[i].to_vector<float>());
  }
}

// Of the first pool only the gradient is wanted, of the second only the result.
TEST(Passes, pool_first_keeps_pools_of_different_windows_apart) {
  const Tensor x = round(random::uniform({2, 8, 8, 3}, {.low = -3, .high = 3, .seed = 1}));
  for (const Pool& other : {Pool{.size = {3}, .strides = {2}, .padding = same}, Pool{.size = {3}}}) {
    const auto step = [&](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = relu(x), dx = tape.gradient(max_pool(y), x);
      return List{max_pool(y, other), dx};
    };
    const List want = step(x), got = function(step, {.name = "pools"})(x);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].to_vector<float>(), want[i].to_vector<float>());
  }
}

List biased_and_pooled(const List& x, const Pool& pool) {
  GradientTape tape;
  for (const auto& input : {x[0], x[1]}) tape.watch(input);
  const Tensor y = relu(max_pool(x[0] + x[1], pool));
  const auto gradients = tape.gradient(y, List{x[0], x[1]}, {.output_gradients = {x[2]}});
  return {y, gradients[0], gradients[1]};
}

TEST(Passes, pool_first_adds_biases_to_the_largest_in_16_bits) {
  Graph graph = traced({{f32, {2, 4, 4, 3}}, {f32, {3}}, {f32, {2, 2, 2, 3}}}, [](const List& x) {
    const List step = biased_and_pooled(x, {});
    return List{step[0], exp(step[1]), step[2]};
  });
  EXPECT_EQ(print(pool_first(graph)), print(graph));
  graph.precision = Precision::bf16;
  expect_pass(pool_first, graph, R"(
function "f" (%0 f32 [2, 4, 4, 3], %1 f32 [3], %2 f32 [2, 2, 2, 3]) in bf16
%3 f32 [2, 4, 4, 3] = add %0 %1
%4 f32 [2, 2, 2, 3] = max_pool %3 {size = [2], strides = [], padding = 0}
%5 f32 [2, 2, 2, 3] = relu %4
%6 f32 [2, 2, 2, 3] = fused %5 %2 {inputs = 2, constants = [0], rows = "greater where", operands = [0, 2, -1, 3, 1, 2], outputs = [4], dtypes = []}
%7 f32 [2, 4, 4, 3] = max_pool_backward %3 %6 {size = [2], strides = [], padding = 0}
%8 f32 [3] = reduce_sum %7 {axes = 0, axes = [0, 1, 2], keepdims = 0, wide_result = 0}
%9 f32 [3] = reshape %8 {shape = [3]}
%10 f32 [2, 4, 4, 3] = exp %7
return %5, %10, %9
)",
              R"(
function "f" (%0 f32 [2, 4, 4, 3], %1 f32 [3], %2 f32 [2, 2, 2, 3]) in bf16
%11 f32 [2, 2, 2, 3] = max_pool %0 {size = [2], strides = [], padding = 0}
%12 f32 [2, 2, 2, 3] = add %11 %1
%5 f32 [2, 2, 2, 3] = relu %12
%6 f32 [2, 2, 2, 3] = fused %5 %2 {inputs = 2, constants = [0], rows = "greater where", operands = [0, 2, -1, 3, 1, 2], outputs = [4], dtypes = []}
%14 f32 [2, 4, 4, 3] = max_pool_backward %0 %6 {size = [2], strides = [], padding = 0}
%13 f32 [3] = reduce_sum %6 {axes = 0, axes = [0, 1, 2], keepdims = 0, wide_result = 0}
%9 f32 [3] = reshape %13 {shape = [3]}
%10 f32 [2, 4, 4, 3] = exp %14
return %5, %10, %9
)");
}

// Whole numbers are exact in 16 bits: ties, overlapping windows and padding give what eager ones do.
TEST(Passes, pool_first_adds_biases_where_they_belong) {
  const Tensor x = round(random::uniform({2, 9, 9, 3}, {.low = -3, .high = 3, .seed = 1}));
  const Tensor bias = Tensor::from(std::vector<float>{-2, 0, 1}, {3});
  for (const Pool& pool :
       {Pool{}, Pool{.size = {3}, .strides = {2}, .padding = same}, Pool{.size = {3}, .strides = {1}}}) {
    const List in{x, bias, round(random::uniform(max_pool(x, pool).shape(), {.low = -2, .high = 2, .seed = 2}))};
    const auto step = [&](const List& list) { return biased_and_pooled(list, pool); };
    const List want = step(in);
    for (const Precision precision : {Precision::bf16, Precision::f16}) {
      const List got = function(step, {.name = "pools", .precision = precision})(in);
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].to_vector<float>(), want[i].to_vector<float>());
    }
  }
}

// What else reads the sum, and what is no bias, leaves it where it is.
TEST(Passes, pool_first_leaves_other_sums_alone) {
  Graph graph = traced({{f32, {2, 4, 4, 3}}, {f32, {3}}, {f32, {2, 4, 4, 3}}, {f32, {4, 3}}}, [](const List& x) {
    const Tensor read_twice = x[0] + x[1];
    return List{max_pool(read_twice), exp(read_twice), max_pool(x[0] + x[2]), max_pool(x[0] + x[3])};
  });
  graph.precision = Precision::bf16;
  EXPECT_EQ(print(pool_first(graph)), print(graph));
}

// A training step of a batch norm and a pool: what it gives, and what with these windows becomes of its graph.
List normed_and_pooled(const List& x, const Pool& pool) {
  GradientTape tape;
  for (const auto& input : {x[0], x[1], x[2]}) tape.watch(input);
  const auto [y, mean, variance] = batch_norm(x[0], x[1], x[2]);
  const Tensor pooled = max_pool(y, pool);
  const auto gradients = tape.gradient(pooled, List{x[0], x[1], x[2]}, {.output_gradients = {x[3]}});
  return {pooled, mean, variance, gradients[0], gradients[1], gradients[2]};
}

TEST(Passes, batch_norms_are_pooled_as_they_are_computed) {
  const Graph graph = traced({{f32, {2, 4, 4, 3}}, {f32, {3}}, {f32, {3}}, {f32, {2, 2, 2, 3}}},
                             [](const List& x) { return normed_and_pooled(x, {}); });
  expect_pass(pool_batch_norms, graph, R"(
function "f" (%0 f32 [2, 4, 4, 3], %1 f32 [3], %2 f32 [3], %3 f32 [2, 2, 2, 3])
%4 f32 [2, 4, 4, 3], %5 f32 [3], %6 f32 [3], %7 f32 [3] = batch_norm %0 %1 %2 {epsilon = 0.001}
%8 f32 [2, 2, 2, 3] = max_pool %4 {size = [2], strides = [], padding = 0}
%9 f32 [2, 4, 4, 3] = max_pool_backward %4 %3 {size = [2], strides = [], padding = 0}
%10 f32 [2, 4, 4, 3], %11 f32 [3], %12 f32 [3] = batch_norm_backward %0 %1 %5 %7 %9 {epsilon = 0.001}
return %8, %5, %6, %10, %11, %12
)",
              R"(
function "f" (%0 f32 [2, 4, 4, 3], %1 f32 [3], %2 f32 [3], %3 f32 [2, 2, 2, 3])
%13 f32 [2, 2, 2, 3], %14 f32 [3], %15 f32 [3], %16 f32 [3] = batch_norm_pool %0 %1 %2 {epsilon = 0.001, size = [2, 2]}
%17 f32 [2, 4, 4, 3], %18 f32 [3], %19 f32 [3] = batch_norm_pool_backward %0 %1 %2 %14 %16 %3 {epsilon = 0.001, size = [2, 2]}
return %13, %14, %15, %17, %18, %19
)");
}

TEST(Passes, batch_norms_stay_where_windows_overlap_or_leave_a_rest_or_others_read_them) {
  const auto joined = [](std::int64_t size, const Pool& pool, bool read) {
    const Shape places = max_pool(zeros({2, size, size, 3}), pool).shape();
    const Graph graph = traced({{f32, {2, size, size, 3}}, {f32, {3}}, {f32, {3}}, {f32, places}}, [&](const List& x) {
      List results = normed_and_pooled(x, pool);
      if (read) results.push_back(batch_norm(x[0], x[1], x[2]).y);
      return results;
    });
    return print(pool_batch_norms(eliminate_common(graph))).find("batch_norm_pool") != std::string::npos;
  };
  EXPECT_TRUE(joined(6, {.size = {2, 3}, .strides = {2, 3}, .padding = same}, false));
  EXPECT_FALSE(joined(6, {.size = {2}}, true));
  EXPECT_FALSE(joined(5, {.size = {2}}, false));
  EXPECT_FALSE(joined(6, {.size = {3}, .strides = {2}, .padding = same}, false));
  EXPECT_FALSE(joined(6, {.size = {2}, .strides = {3}}, false));
}

// Equal elements, scales below zero: the same elements are chosen; only sums over them are rounded otherwise. Every
// operand is made in the step, so that its memory may become that of a gradient, of the pooled norm and of the other.
TEST(Passes, pooled_batch_norms_give_what_they_gave) {
  const Tensor x = round(random::uniform({4, 8, 8, 5}, {.low = -3, .high = 3, .seed = 1}));
  const Tensor scale = Tensor::from(std::vector<float>{1, -0.5F, 0, 2, -3}, {5}), offset = scale * 0.25;
  const Tensor dy = random::uniform({4, 4, 4, 5}, {.low = -1, .high = 1, .seed = 2});
  for (const Pool& pool : {Pool{}, Pool{.size = {3}, .strides = {2}, .padding = same}}) {
    const auto step = [&](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
      return normed_and_pooled({a * 2.0, b * 2.0, c * 2.0, d * 2.0}, pool);
    };
    const List want = step(x, scale, offset, dy), got = function(step, {.name = "norms"})(x, scale, offset, dy);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(got[i].to_vector<float>(), want[i].to_vector<float>());
    for (std::size_t i = 3; i < want.size(); ++i) {
      const auto a = got[i].to_vector<float>(), b = want[i].to_vector<float>();
      for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 2e-6 * (1 + std::abs(b[k]))) << i;
    }
  }
}

}  // namespace
}  // namespace thalweg
