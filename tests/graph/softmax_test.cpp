// Softmaxes written by hand become the op.
#include <algorithm>
#include <cmath>

#include "tests/graph/pass_testing.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/registry.h"
#include "thalweg/plan/plan_state.h"

namespace thalweg {
namespace {

using testing::expect_pass, testing::traced;
using List = testing::List;

const Reduce last{.axes = -1, .keepdims = true};

Tensor by_hand(const Tensor& x) {
  const Tensor e = exp(x - reduce_max(x, last));
  return e / reduce_sum(e, last);
}

TEST(Passes, recognise_softmax_takes_hand_written_ones) {
  const Graph graph = traced({{f32, {2, 3}}}, [](const List& x) {
    const Tensor e = exp(x[0]);
    return List{by_hand(x[0]), e / expand_dims(reduce_sum(e, {.axes = 1}), 1), exp(log_softmax(x[0] * x[0]))};
  });
  expect_pass(recognise_softmax, graph, R"(
function "f" (%0 f32 [2, 3])
%1 f32 [2, 3] = exp %0
%2 f32 [2, 1] = reduce_max %0 {axes = 0, axes = [-1], keepdims = 1, wide_result = 0}
%3 f32 [2, 3] = subtract %0 %2
%4 f32 [2, 3] = exp %3
%5 f32 [2, 1] = reduce_sum %4 {axes = 0, axes = [-1], keepdims = 1, wide_result = 0}
%6 f32 [2, 3] = divide %4 %5
%7 f32 [2] = reduce_sum %1 {axes = 0, axes = [1], keepdims = 0, wide_result = 0}
%8 f32 [2, 1] = reshape %7 {shape = [2, 1]}
%9 f32 [2, 3] = divide %1 %8
%10 f32 [2, 3] = multiply %0 %0
%11 f32 [2, 3] = log_softmax %10
%12 f32 [2, 3] = exp %11
return %6, %9, %12
)",
              R"(
function "f" (%0 f32 [2, 3])
%13 f32 [2, 3] = softmax %0
%14 f32 [2, 3] = softmax %0
%10 f32 [2, 3] = multiply %0 %0
%15 f32 [2, 3] = softmax %10
return %13, %14, %15
)");
}

TEST(Passes, recognise_softmax_takes_the_gradient_by_a_tape) {
  const Graph graph = traced({{f32, {2, 3}}, {f32, {2, 3}}}, [](const List& x) {
    GradientTape tape;
    tape.watch(x[0]);
    const Tensor y = by_hand(x[0]);
    return List{tape.gradient(y, x[0], {.output_gradients = {x[1]}})};
  });
  expect_pass(recognise_softmax, graph, R"(
function "f" (%0 f32 [2, 3], %1 f32 [2, 3])
constant %25 [] f32 0
%2 f32 [2, 1] = reduce_max %0 {axes = 0, axes = [-1], keepdims = 1, wide_result = 0}
%3 f32 [2, 3] = subtract %0 %2
%4 f32 [2, 3] = exp %3
%5 f32 [2, 1] = reduce_sum %4 {axes = 0, axes = [-1], keepdims = 1, wide_result = 0}
%6 f32 [2, 3] = divide %4 %5
%7 f32 [2, 3], %8 f32 [2, 3] = fused %5 %6 %1 {inputs = 3, constants = [], rows = "divide neg multiply divide", operands = [2, 0, -1, 2, -1, -1, 4, 1, -1, 5, 0, -1], outputs = [3, 6], dtypes = []}
%9 f32 [2] = reduce_sum %8 {axes = 0, axes = [1], keepdims = 0, wide_result = 0}
%10 f32 [2, 1] = reshape %9 {shape = [2, 1]}
%11 f32 [2, 1] = reshape %10 {shape = [2, 1]}
%12 f32 [2, 3] = broadcast_to %11 {shape = [2, 3]}
%13 f32 [2, 3] = add %7 %12
%14 f32 [2, 3] = fused %4 %13 {inputs = 2, constants = [], rows = "multiply", operands = [1, 0, -1], outputs = [2], dtypes = []}
%15 f32 [2, 3], %16 f32 [2, 3] = fused %14 {inputs = 1, constants = [], rows = "neg", operands = [0, -1, -1], outputs = [0, 1], dtypes = []}
%17 f32 [2] = reduce_sum %16 {axes = 0, axes = [1], keepdims = 0, wide_result = 0}
%18 f32 [2, 1] = reshape %17 {shape = [2, 1]}
%19 f32 [2, 1] = reshape %18 {shape = [2, 1]}
%20 f32 [2, 1] = reshape %2 {shape = [2, 1]}
%21 boolean [2, 3] = equal %0 %20
%22 f32 [2, 3] = cast %21 {dtype = 0}
%23 f32 [2, 1] = reduce_sum %22 {axes = 0, axes = [1], keepdims = 1, wide_result = 0}
%24 f32 [2, 1] = divide %19 %23
%26 f32 [2, 3] = where %21 %24 %25
%27 f32 [2, 3] = add %15 %26
return %27
)",
              R"(
function "f" (%0 f32 [2, 3], %1 f32 [2, 3])
%28 f32 [2, 3] = softmax %0
%29 f32 [2, 3] = softmax_backward %28 %1
return %29
)");
}

// How many softmaxes and gradients of them a function of [4, 4] compiles to.
template <class F>
std::pair<int, int> found(F f) {
  const auto g = function(f);
  const Graph& graph = g.plan(Spec{f32, {4, 4}}).state().compiled.graph;
  const auto count = [&](const OpInfo& info) {
    return static_cast<int>(
        std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.info == &info; }));
  };
  return {count(softmax_info()), count(softmax_backward_info())};
}

using Counts = std::pair<int, int>;

TEST(Passes, recognise_softmax_leaves_other_sums_alone) {
  EXPECT_EQ(found([](const Tensor& x) { return by_hand(x); }), Counts(1, 0));
  const auto over = [](const Reduce& sum) {
    return [=](const Tensor& x) {
      const Tensor e = exp(x);
      return e / reduce_sum(e, sum);
    };
  };
  EXPECT_EQ(found(over({.axes = 0, .keepdims = true})), Counts(0, 0));
  EXPECT_EQ(found(over({.axes = -1})), Counts(0, 0));  // the sums of rows stand for columns
  EXPECT_EQ(found(over({})), Counts(0, 0));
  EXPECT_EQ(found([](const Tensor& x) { return exp(x) / reduce_sum(exp(2 * x), last); }), Counts(0, 0));
  EXPECT_EQ(found([](const Tensor& x) { return exp(x) / reduce_max(exp(x), last); }), Counts(0, 0));
}

TEST(Passes, recognise_softmax_leaves_exponentials_that_are_read_elsewhere) {
  EXPECT_EQ(found([](const Tensor& x) {
              const Tensor e = exp(x);
              return List{e / reduce_sum(e, last), e};
            }),
            Counts(0, 0));
  EXPECT_EQ(found([](const Tensor& x) {
              const Tensor e = exp(x), sum = reduce_sum(e, last);
              return List{e / sum, log(sum)};
            }),
            Counts(0, 0));
  EXPECT_EQ(found([](const Tensor& x) {
              const Tensor y = log_softmax(x);
              return reduce_sum(y * exp(y));  // an entropy
            }),
            Counts(0, 0));
}

// The maximum of what is not the exponent, or of all rows, is arithmetic like any other.
TEST(Passes, recognise_softmax_keeps_what_else_is_subtracted) {
  for (const bool all : {false, true}) {
    const auto f = [=](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor e = exp(x - (all ? reduce_max(x) : reduce_max(x * x, last)));
      return List{tape.gradient(reduce_sum(square(e / reduce_sum(e, last))), x)};
    };
    EXPECT_EQ(found(f), Counts(1, 1)) << all;
    const Tensor x = random::normal({4, 4}, {.seed = 1});
    EXPECT_LT(reduce_max(abs(function(f)(x)[0] - f(x)[0])).item<float>(), 1e-6f) << all;
  }
}

// Rows without a maximum overflow in single ops only; with one they give what they gave.
TEST(Passes, recognise_softmax_treats_infinities_as_before_or_better) {
  const float inf = INFINITY;
  const Tensor x =
      tensor({{1.f, -inf, 2.f}, {-inf, -inf, -inf}, {inf, 0.f, 1.f}, {NAN, 0.f, 1.f}, {800.f, 801.f, 0.f}});
  const auto bits = [](const Tensor& y) { return cast(isfinite(y), i32).to_vector<int>(); };
  EXPECT_EQ(bits(function(by_hand)(x)), bits(by_hand(x)));
  const auto without = [](const Tensor& y) {
    const Tensor e = exp(y);
    return e / reduce_sum(e, last);
  };
  EXPECT_FALSE(std::isfinite(without(x).to_vector<float>()[12]));
  EXPECT_NEAR(function(without)(x).to_vector<float>()[12], 1 / (1 + std::exp(1.f)), 1e-6f);
}

}  // namespace
}  // namespace thalweg
