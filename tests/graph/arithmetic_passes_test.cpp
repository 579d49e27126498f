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

}  // namespace
}  // namespace thalweg
