// Each pass on a small graph, as text before and after. The graph is that of the example in the pass's own file.
#include "thalweg/graph/passes/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/pass_testing.h"
#include "thalweg/graph/procedure.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/row_ops.h"
#include "thalweg/plan/batch_split.h"
#include "thalweg/plan/rematerialise.h"
#include "thalweg/plan/schedule.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::expect_pass, testing::traced;
using List = testing::List;

const Spec vector{f32, {4}}, matrix{f32, {2, 3}};

TEST(Passes, prune_drops_what_no_result_needs) {
  const Variable unused(ones({2}), {.name = "unused"});
  const Graph graph = traced({vector}, [&](const List& x) {
    exp(x[0]), unused.value();
    return List{sin(x[0])};
  });
  expect_pass(prune, graph, R"(
function "f" (%0 f32 [4])
variable unused %2 f32 [2]
%1 f32 [4] = exp %0
%3 f32 [4] = sin %0
return %3
)",
              R"(
function "f" (%0 f32 [4])
%3 f32 [4] = sin %0
return %3
)");
}

TEST(Passes, fold_constants_computes_them_once) {
  Graph graph = traced({vector}, [](const List& x) { return List{x[0] * 2}; });
  const auto& exp = row_op(Row::exp);  // while tracing, ops over known values run at once
  const ValueId power =
      graph.add_node(exp, exp.copy(&row_info(Row::exp)), {graph.constants[0].value}, {Spec{f32, {}}}).outputs[0];
  graph.nodes[0].inputs[1] = power;
  std::swap(graph.nodes[0], graph.nodes[1]);
  expect_pass(fold_constants, graph, R"(
function "f" (%0 f32 [4])
constant %1 [] f32 2
%3 f32 [] = exp %1
%2 f32 [4] = multiply %0 %3
return %2
)",
              R"(
function "f" (%0 f32 [4])
constant %1 [] f32 2
constant %3 [] f32 7.38906
%2 f32 [4] = multiply %0 %3
return %2
)");
}

TEST(Passes, simplify_drops_what_changes_nothing) {
  const Graph graph = traced({matrix}, [](const List& x) {
    const Tensor same = reshape(reshape(x[0], {6}), {2, 3}), back = transpose(transpose(x[0], {1, 0}), {1, 0});
    return List{exp(same * 1), stop_gradient(back) + 0};
  });
  expect_pass(simplify, graph, R"(
function "f" (%0 f32 [2, 3])
constant %5 [] f32 1
constant %9 [] f32 0
%1 f32 [6] = reshape %0 {shape = [6]}
%2 f32 [2, 3] = reshape %1 {shape = [2, 3]}
%3 f32 [3, 2] = transpose %0 {perm = [1, 0]}
%4 f32 [2, 3] = transpose %3 {perm = [1, 0]}
%6 f32 [2, 3] = multiply %2 %5
%7 f32 [2, 3] = exp %6
%8 f32 [2, 3] = stop_gradient %4
%10 f32 [2, 3] = add %8 %9
return %7, %10
)",
              R"(
function "f" (%0 f32 [2, 3])
constant %9 [] f32 0
%7 f32 [2, 3] = exp %0
%10 f32 [2, 3] = add %0 %9
return %7, %10
)");
}

TEST(Passes, eliminate_common_computes_equal_nodes_once) {
  const Graph graph = traced({vector}, [](const List& x) {
    const Tensor first = exp(x[0]), second = exp(x[0]);
    return List{first + second, random::normal({2}, {.seed = 1}), random::normal({2}, {.seed = 1}),
                random::normal({2}, {.seed = 2})};
  });
  expect_pass(eliminate_common, graph, R"(
function "f" (%0 f32 [4])
random %4 i64 [4]
%1 f32 [4] = exp %0
%2 f32 [4] = exp %0
%3 f32 [4] = add %1 %2
%5 f32 [2] = random_tensor %4 {distribution = 0, shape = [2], dtype = 0, a = 0, b = 1, seed = 1, ordinal = -1}
%6 f32 [2] = random_tensor %4 {distribution = 0, shape = [2], dtype = 0, a = 0, b = 1, seed = 1, ordinal = -1}
%7 f32 [2] = random_tensor %4 {distribution = 0, shape = [2], dtype = 0, a = 0, b = 1, seed = 2, ordinal = -1}
return %3, %5, %6, %7
)",
              R"(
function "f" (%0 f32 [4])
random %4 i64 [4]
%1 f32 [4] = exp %0
%3 f32 [4] = add %1 %1
%5 f32 [2] = random_tensor %4 {distribution = 0, shape = [2], dtype = 0, a = 0, b = 1, seed = 1, ordinal = -1}
%7 f32 [2] = random_tensor %4 {distribution = 0, shape = [2], dtype = 0, a = 0, b = 1, seed = 2, ordinal = -1}
return %3, %5, %5, %7
)");
}

// The gradients of two equal losses start from constants that are folded apart.
TEST(Passes, eliminate_common_joins_equal_constants) {
  const Graph graph = traced({vector}, [](const List& x) {
    const auto half = [] { return tensor({0.5f, 0.5f, 0.5f, 0.5f}); };
    return List{exp(x[0] * half()), exp(x[0] * half()), x[0] * tensor({0.5f, 0.5f, 0.5f, 0.25f})};
  });
  EXPECT_EQ(graph.constants.size(), 3u);
  const Graph changed = eliminate_common(graph);
  verify(changed, "common");
  EXPECT_EQ(changed.constants.size(), 2u);
  EXPECT_EQ(changed.nodes.size(), 3u);
  EXPECT_EQ(changed.results[0], changed.results[1]);
}

TEST(Passes, fold_transposes_makes_them_flags_of_products) {
  const Graph graph = traced({matrix, matrix}, [](const List& x) {
    return List{matmul(x[0], transpose(x[1], {1, 0})), matmul(transpose(x[0], {1, 0}), x[1], {.transpose_b = false})};
  });
  expect_pass(fold_transposes, graph, R"(
function "f" (%0 f32 [2, 3], %1 f32 [2, 3])
%2 f32 [3, 2] = transpose %1 {perm = [1, 0]}
%3 f32 [2, 2] = matmul %0 %2 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%4 f32 [3, 2] = transpose %0 {perm = [1, 0]}
%5 f32 [3, 3] = matmul %4 %1 {transpose_a = 0, transpose_b = 0, wide_result = 0}
return %3, %5
)",
              R"(
function "f" (%0 f32 [2, 3], %1 f32 [2, 3])
%3 f32 [2, 2] = matmul %0 %1 {transpose_a = 0, transpose_b = 1, wide_result = 0}
%5 f32 [3, 3] = matmul %0 %1 {transpose_a = 1, transpose_b = 0, wide_result = 0}
return %3, %5
)");
}

TEST(Passes, fold_transposes_joins_and_turns_at_once) {
  const Graph graph = traced({{f32, {2, 3, 4}}, {f32, {2, 3, 4}}}, [](const List& x) {
    const Tensor seen = concat({x[1], x[0]}, 1);
    return List{transpose(concat({x[0], x[1]}, 0), {1, 0, 2}), transpose(seen, {1, 0, 2}), seen,
                transpose(concat({x[0], x[0]}, 0), {0, 2, 1})};
  });
  expect_pass(fold_transposes, graph, R"(
function "f" (%0 f32 [2, 3, 4], %1 f32 [2, 3, 4])
%2 f32 [2, 6, 4] = concat %1 %0 {axis = 1, perm = []}
%3 f32 [4, 3, 4] = concat %0 %1 {axis = 0, perm = []}
%4 f32 [3, 4, 4] = transpose %3 {perm = [1, 0, 2]}
%5 f32 [6, 2, 4] = transpose %2 {perm = [1, 0, 2]}
%6 f32 [4, 3, 4] = concat %0 %0 {axis = 0, perm = []}
%7 f32 [4, 4, 3] = transpose %6 {perm = [0, 2, 1]}
return %4, %5, %2, %7
)",
              R"(
function "f" (%0 f32 [2, 3, 4], %1 f32 [2, 3, 4])
%2 f32 [2, 6, 4] = concat %1 %0 {axis = 1, perm = []}
%4 f32 [3, 4, 4] = concat %0 %1 {axis = 0, perm = [1, 0, 2]}
%5 f32 [6, 2, 4] = transpose %2 {perm = [1, 0, 2]}
%6 f32 [4, 3, 4] = concat %0 %0 {axis = 0, perm = []}
%7 f32 [4, 4, 3] = transpose %6 {perm = [0, 2, 1]}
return %4, %5, %2, %7
)");
}

TEST(Passes, fuse_joins_elementwise_nodes) {
  const Graph graph = traced({matrix, {f32, {3}}}, [](const List& x) {
    const Tensor y = relu(x[0] + x[1]);
    return List{y * 2 - 1, reduce_sum(y)};
  });
  expect_pass(fuse, graph, R"(
function "f" (%0 f32 [2, 3], %1 f32 [3])
constant %4 [] f32 2
constant %6 [] f32 1
%2 f32 [2, 3] = add %0 %1
%3 f32 [2, 3] = relu %2
%5 f32 [2, 3] = multiply %3 %4
%7 f32 [2, 3] = subtract %5 %6
%8 f32 [] = reduce_sum %3 {axes = 1, keepdims = 0, wide_result = 0}
return %7, %8
)",
              R"(
function "f" (%0 f32 [2, 3], %1 f32 [3])
%3 f32 [2, 3], %7 f32 [2, 3] = fused %0 %1 {inputs = 2, constants = [1, 2], rows = "add relu multiply subtract", operands = [0, 1, -1, 4, -1, -1, 5, 3, -1, 6, 2, -1], outputs = [5, 7], dtypes = [0, 0]}
%8 f32 [] = reduce_sum %3 {axes = 1, keepdims = 0, wide_result = 0}
return %7, %8
)");
}

TEST(Passes, fuse_leaves_cycles_apart) {
  const Graph graph = traced({vector}, [](const List& x) {
    const Tensor y = exp(x[0]);
    return List{y * reduce_sum(y)};
  });
  expect_pass(fuse, graph, R"(
function "f" (%0 f32 [4])
%1 f32 [4] = exp %0
%2 f32 [] = reduce_sum %1 {axes = 1, keepdims = 0, wide_result = 0}
%3 f32 [4] = multiply %1 %2
return %3
)",
              R"(
function "f" (%0 f32 [4])
%1 f32 [4] = fused %0 {inputs = 1, constants = [], rows = "exp", operands = [0, -1, -1], outputs = [1], dtypes = [0]}
%2 f32 [] = reduce_sum %1 {axes = 1, keepdims = 0, wide_result = 0}
%3 f32 [4] = fused %1 %2 {inputs = 2, constants = [], rows = "multiply", operands = [0, 1, -1], outputs = [2], dtypes = [0]}
return %3
)");
}

TEST(Passes, view_parts_cuts_leading_axes_in_place) {
  const Graph graph = traced({{f32, {1, 3, 2}}}, [](const List& x) {
    const auto rows = split(x[0], {1, 2}, 1), columns = split(x[0], {1, 1}, 2);
    return List{exp(rows[1]), exp(columns[0])};
  });
  expect_pass(view_parts, graph, R"(
function "f" (%0 f32 [1, 3, 2])
%1 f32 [1, 1, 2], %2 f32 [1, 2, 2] = split %0 {sizes = [1, 2], axis = 1}
%3 f32 [1, 3, 1], %4 f32 [1, 3, 1] = split %0 {sizes = [1, 1], axis = 2}
%5 f32 [1, 2, 2] = exp %2
%6 f32 [1, 3, 1] = exp %3
return %5, %6
)",
              R"(
function "f" (%0 f32 [1, 3, 2])
%8 f32 [1, 2, 2] = slice %0 {begin = [0, 1, 0], size = [1, 2, 2]}
%3 f32 [1, 3, 1], %4 f32 [1, 3, 1] = split %0 {sizes = [1, 1], axis = 2}
%5 f32 [1, 2, 2] = exp %8
%6 f32 [1, 3, 1] = exp %3
return %5, %6
)");
}

TEST(Passes, fuse_reductions_keeps_what_is_only_reduced_out_of_memory) {
  const Graph graph = fuse(traced({matrix}, [](const List& x) {
    const Tensor shared = exp(x[0]);
    return List{reduce_sum(square(x[0])), reduce_mean(shared, {.axes = 0}), shared};
  }));
  expect_pass(fuse_reductions, graph, R"(
function "f" (%0 f32 [2, 3])
%1 f32 [2, 3] = fused %0 {inputs = 1, constants = [], rows = "exp", operands = [0, -1, -1], outputs = [1], dtypes = [0]}
%2 f32 [2, 3] = fused %0 {inputs = 1, constants = [], rows = "square", operands = [0, -1, -1], outputs = [1], dtypes = [0]}
%3 f32 [] = reduce_sum %2 {axes = 1, keepdims = 0, wide_result = 0}
%4 f32 [3] = reduce_mean %1 {axes = 0, axes = [0], keepdims = 0, wide_result = 0}
return %3, %4, %1
)",
              R"(
function "f" (%0 f32 [2, 3])
%1 f32 [2, 3] = fused %0 {inputs = 1, constants = [], rows = "exp", operands = [0, -1, -1], outputs = [1], dtypes = [0]}
%3 f32 [] = fused_reduce %0 {inputs = 1, constants = [], rows = "square", operands = [0, -1, -1], outputs = [1], reduction = "reduce_sum", axes = 1, keepdims = 0, wide_result = 0}
%4 f32 [3] = reduce_mean %1 {axes = 0, axes = [0], keepdims = 0, wide_result = 0}
return %3, %4, %1
)");
}

TEST(Passes, schedule_updates_a_variable_when_its_gradient_is_there) {
  Variable a(zeros({2000}), {.name = "a"}), b(zeros({2000}), {.name = "b"});
  const Graph graph = traced({{f32, {2000}}}, [&](const List& x) {
    const Tensor of_a = sin(x[0]), of_b = cos(x[0]);
    a.assign_sub(of_a), b.assign_sub(of_b);
    return List{};
  });
  expect_pass(schedule, graph, R"(
function "f" (%0 f32 [2000])
variable a %3 f32 [2000] -> %4
variable b %5 f32 [2000] -> %6
%1 f32 [2000] = sin %0
%2 f32 [2000] = cos %0
%4 f32 [2000] = subtract %3 %1
%6 f32 [2000] = subtract %5 %2
return 
)",
              R"(
function "f" (%0 f32 [2000])
variable a %3 f32 [2000] -> %4
variable b %5 f32 [2000] -> %6
%1 f32 [2000] = sin %0
%4 f32 [2000] = subtract %3 %1
%2 f32 [2000] = cos %0
%6 f32 [2000] = subtract %5 %2
return 
)");
}

TEST(Passes, precision_keeps_what_lies_between_products_in_16_bits) {
  const Variable v(ones({128, 128}), {.name = "v"}), w(ones({128, 128}), {.name = "w"});
  Graph graph = traced({{f32, {64, 128}}}, [&](const List& x) {
    const Tensor hidden = relu(matmul(x[0], v));
    return List{matmul(hidden, w)};
  });
  graph.precision = Precision::bf16;
  expect_pass(narrow_values, graph, R"(
function "f" (%0 f32 [64, 128]) in bf16
variable v %1 f32 [128, 128]
variable w %4 f32 [128, 128]
%2 f32 [64, 128] = matmul %0 %1 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%3 f32 [64, 128] = relu %2
%5 f32 [64, 128] = matmul %3 %4 {transpose_a = 0, transpose_b = 0, wide_result = 0}
return %5
)",
              R"(
function "f" (%0 f32 [64, 128]) in bf16
variable v %1 f32 [128, 128]
variable w %4 f32 [128, 128]
%6 bf16 [64, 128] = cast %0 {dtype = 3}
%7 bf16 [128, 128] = cast %1 {dtype = 3}
%2 bf16 [64, 128] = matmul %6 %7 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%8 f32 [64, 128] = cast %2 {dtype = 0}
%9 f32 [64, 128] = relu %8
%3 bf16 [64, 128] = cast %9 {dtype = 3}
%10 bf16 [128, 128] = cast %4 {dtype = 3}
%5 f32 [64, 128] = matmul %3 %10 {transpose_a = 0, transpose_b = 0, wide_result = 1}
return %5
)");
}

TEST(Passes, precision_leaves_losses_statistics_and_updates_wide) {
  Variable w(ones({128, 64}), {.name = "w"});
  Graph graph = traced({{f32, {128, 128}}, {f32, {128, 64}}}, [&](const List& x) {
    GradientTape tape;
    const Tensor loss = reduce_mean(square(matmul(x[0], w) - x[1]));
    w.assign_sub(tape.gradient(loss, w));
    return List{loss};
  });
  graph.precision = Precision::f16;
  const Graph changed = narrow_values(eliminate_common(simplify(fold_constants(prune(std::move(graph))))));
  verify(changed, "precision");
  EXPECT_EQ("\n" + print(changed), R"(
function "f" (%0 f32 [128, 128], %1 f32 [128, 64]) in f16
variable w %2 f32 [128, 64] -> %17
constant %10 [1, 1] f32 [[0.00012207]]
%18 f16 [128, 128] = cast %0 {dtype = 2}
%19 f16 [128, 64] = cast %2 {dtype = 2}
%3 f16 [128, 64] = matmul %18 %19 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%20 f32 [128, 64] = cast %3 {dtype = 0}
%4 f32 [128, 64] = subtract %20 %1
%5 f32 [128, 64] = square %4
%6 f32 [] = reduce_mean %5 {axes = 1, keepdims = 0, wide_result = 0}
%11 f32 [128, 64] = broadcast_to %10 {shape = [128, 64]}
%21 f32 [128, 64] = fused %4 %11 {inputs = 2, constants = [2], rows = "multiply multiply", operands = [1, 2, -1, 3, 0, -1], outputs = [4], dtypes = []}
%12 f16 [128, 64] = cast %21 {dtype = 2}
%15 f32 [128, 64] = matmul %18 %12 {transpose_a = 1, transpose_b = 0, wide_result = 1}
%17 f32 [128, 64] = subtract %2 %15
return %6
)");
}

TEST(Passes, fuse_loads_rounds_and_stores_16_bits) {
  const Spec narrow{bf16, {4}};
  const Graph graph = traced({narrow, vector}, [](const List& x) {
    const Tensor kept = cast(cast(x[0], f32) + x[1], bf16);
    return List{kept, cast(gelu(cast(kept, f32)), bf16)};
  });
  expect_pass(fuse, graph, R"(
function "f" (%0 bf16 [4], %1 f32 [4])
%2 f32 [4] = cast %0 {dtype = 0}
%3 f32 [4] = add %2 %1
%4 bf16 [4] = cast %3 {dtype = 3}
%5 f32 [4] = cast %4 {dtype = 0}
%6 f32 [4] = gelu_erf %5
%7 bf16 [4] = cast %6 {dtype = 3}
return %4, %7
)",
              R"(
function "f" (%0 bf16 [4], %1 f32 [4])
%4 bf16 [4], %7 bf16 [4] = fused %0 %1 {inputs = 2, constants = [], rows = "add round_to_bf16 gelu_erf round_to_bf16", operands = [0, 1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1], outputs = [3, 5], dtypes = [3, 3]}
return %4, %7
)");
}

TEST(Passes, recompute_nodes_runs_nodes_again) {
  const Graph graph = traced({vector}, [](const List& x) {
    const Tensor y = gelu(x[0]);
    return List{sin(sin(y)) * y};
  });
  verify(graph, "trace");
  Recomputation choice{2, {true, false, false, false}};
  EXPECT_EQ("\n" + print(graph), R"(
function "f" (%0 f32 [4])
%1 f32 [4] = gelu_erf %0
%2 f32 [4] = sin %1
%3 f32 [4] = sin %2
%4 f32 [4] = multiply %3 %1
return %4
)");
  const Graph again = recompute_nodes(graph, choice);
  verify(again, "recompute_nodes");
  EXPECT_EQ("\n" + print(again), R"(
function "f" (%0 f32 [4])
%1 f32 [4] = gelu_erf %0
%2 f32 [4] = sin %1
%3 f32 [4] = sin %2
%5 f32 [4] = gelu_erf %0
%4 f32 [4] = multiply %3 %5
return %4
)");
}

TEST(Passes, split_batch_makes_a_loop_over_parts) {
  const Variable w(ones({3, 2}), {.name = "w"});
  const Graph graph = traced({{f32, {10, 3}}}, [&](const List& x) {
    const Tensor y = matmul(x[0], w);
    return List{y, reduce_sum(y) * 2};
  });
  EXPECT_EQ("\n" + print(graph), R"(
function "f" (%0 f32 [10, 3])
variable w %1 f32 [3, 2]
constant %4 [] f32 2
%2 f32 [10, 2] = matmul %0 %1 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%3 f32 [] = reduce_sum %2 {axes = 1, keepdims = 0, wide_result = 0}
%5 f32 [] = multiply %3 %4
return %2, %5
)");
  const BatchSplit split = split_batch(graph, {0}, {.parts = 3});
  ASSERT_EQ(split.obstacle, "");
  verify(split.graph, "split_batch");
  EXPECT_EQ("\n" + print(split.graph), R"(
function "f" (%0 f32 [10, 3])
variable w %1 f32 [3, 2]
constant %4 [] f32 2
%3 f32 [], %2 f32 [10, 2] = micro_batches %0 %1 {parts = 3, examples = 4}
%5 f32 [] = multiply %3 %4
return %2, %5
)");
}

TEST(Passes, split_batch_makes_a_second_loop_for_what_needs_totals) {
  const auto centered = [](const Tensor& x) { return x - reduce_mean(x, {.axes = {0}, .keepdims = true}); };
  const Graph graph = traced({{f64, {10, 3}}}, [&](const List& x) { return List{centered(x[0])}; });
  const BatchSplit split = split_batch(graph, {0}, {.parts = 3});
  ASSERT_EQ(split.obstacle, "");
  EXPECT_EQ("\n" + print(split.graph), R"(
function "f" (%0 f64 [10, 3])
%1 f64 [1, 3] = micro_batches %0 {parts = 3, examples = 4}
%2 f64 [10, 3] = micro_batches %0 %1 {parts = 3, examples = 4}
return %2
)");
  const Tensor x = random::normal({10, 3}, {.dtype = f64}), y = zeros({10, 3}, f64);
  const auto procedure = make_procedure(split.graph);
  const Tensor workspace = zeros({procedure->workspace()}, u8);
  void *from = mutable_data(x), *to = mutable_data(y);
  procedure->run({&from, 1}, {}, {&to, 1}, static_cast<std::byte*>(mutable_data(workspace)));
  const auto expected = centered(x).to_vector<double>(), got = y.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-14);
}

TEST(Passes, split_batch_names_its_obstacle) {
  const Graph graph = traced({{f32, {4, 3}}}, [](const List& x) { return List{cumsum(x[0], {.axis = 0})}; });
  EXPECT_EQ(split_batch(graph, {0}, {.parts = 2}).obstacle, R"(cumsum of [4, 3] mixes examples)");
  EXPECT_EQ(split_batch(graph, {}, {.parts = 2}).obstacle, "no argument carries examples along its leading axis");
}

TEST(Passes, verify_refuses_wrong_graphs) {
  const Graph graph = traced({vector}, [](const List& x) { return List{sin(exp(x[0]))}; });
  Graph swapped = graph;
  std::swap(swapped.nodes[0], swapped.nodes[1]);
  EXPECT_THROW(verify(swapped, "a swap"), Error);
  Graph other_spec = graph;
  other_spec.values.back() = {f64, {4}};
  EXPECT_THROW(verify(other_spec, "a cast"), Error);
  Graph twice = graph;
  twice.nodes.push_back(twice.nodes[0]);
  EXPECT_THROW(verify(twice, "a copy"), Error);
}

}  // namespace
}  // namespace thalweg
