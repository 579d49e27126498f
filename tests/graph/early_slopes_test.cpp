// Slopes of expensive functions, taken where the functions are.
#include "thalweg/plan/early_slopes.h"

#include "tests/graph/pass_testing.h"
#include "tests/support/values.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/ops/row_ops.h"
#include "thalweg/plan/ladder.h"
#include "thalweg/plan/plan_state.h"

namespace thalweg {
namespace {

using namespace thalweg::testing;

const Spec matrix{f32, {4, 8}}, square_matrix{f32, {8, 8}};

Graph fused(const std::vector<Spec>& arguments, const std::function<List(const List&)>& f) {
  return fuse(traced(arguments, f));
}

// y = f(x + bias) w, and the gradient of its squares with respect to x.
List gradient_of(const std::function<Tensor(const Tensor&)>& f, const List& in) {
  GradientTape tape;
  tape.watch(in[0]);
  const Tensor y = matmul(f(in[0] + in[1]), in[2]);
  return {y, tape.gradient(square(y), in[0])};
}

TEST(EarlySlopes, the_slope_takes_the_place_of_the_argument) {
  const Graph graph = fused({matrix, matrix, square_matrix}, [](const List& in) {
    return gradient_of([](const Tensor& x) { return softplus(x); }, in);
  });
  expect_pass(take_slopes_early, graph, R"(
function "f" (%0 f32 [4, 8], %1 f32 [4, 8], %2 f32 [8, 8])
%3 f32 [4, 8], %4 f32 [4, 8] = fused %0 %1 {inputs = 2, constants = [], rows = "add softplus", operands = [0, 1, -1, 2, -1, -1], outputs = [2, 3], dtypes = [0, 0]}
%5 f32 [4, 8] = matmul %4 %2 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%8 f32 [4, 8] = fused %5 {inputs = 1, constants = [2], rows = "multiply", operands = [1, 0, -1], outputs = [2], dtypes = [0]}
%9 f32 [4, 8] = matmul %8 %2 {transpose_a = 0, transpose_b = 1, wide_result = 0}
%10 f32 [4, 8] = fused %3 %9 {inputs = 2, constants = [], rows = "sigmoid multiply", operands = [0, -1, -1, 1, 2, -1], outputs = [3], dtypes = [0]}
return %5, %10
)",
              R"(
function "f" (%0 f32 [4, 8], %1 f32 [4, 8], %2 f32 [8, 8])
%3 f32 [4, 8], %4 f32 [4, 8] = fused %0 %1 {inputs = 2, constants = [], rows = "add softplus sigmoid", operands = [0, 1, -1, 2, -1, -1, 2, -1, -1], outputs = [4, 3], dtypes = [0, 0]}
%5 f32 [4, 8] = matmul %4 %2 {transpose_a = 0, transpose_b = 0, wide_result = 0}
%8 f32 [4, 8] = fused %5 {inputs = 1, constants = [2], rows = "multiply", operands = [1, 0, -1], outputs = [2], dtypes = [0]}
%9 f32 [4, 8] = matmul %8 %2 {transpose_a = 0, transpose_b = 1, wide_result = 0}
%10 f32 [4, 8] = fused %3 %9 {inputs = 2, constants = [], rows = "multiply", operands = [1, 0, -1], outputs = [2], dtypes = [0]}
return %5, %10
)");
}

// What one pass over rows of elementwise ops makes of each: the number of rows in the last program.
std::size_t last_rows(const Graph& graph) { return program_of(graph.nodes.back().op.get()).instructions.size(); }

TEST(EarlySlopes, gradients_of_activations_are_one_factor) {
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> functions = {
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"gelu by tanh", [](const Tensor& x) { return gelu(x, {.approximate = true}); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"mish", [](const Tensor& x) { return mish(x); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }}};
  random::set_seed(3);
  const Tensor x = random::normal({4, 8}), bias = random::normal({8}), w = random::normal({8, 8});
  for (const auto& [name, f] : functions) {
    const auto gradient = [&f = f](const List& in) { return gradient_of(f, in); };
    const Graph late = fused({matrix, Spec{f32, {8}}, square_matrix}, gradient);
    EXPECT_GT(last_rows(late), 1u) << name;
    EXPECT_EQ(last_rows(take_slopes_early(late)), 1u) << name;
    const auto compiled = function([&](const List& in) { return gradient(in); });
    EXPECT_TRUE(same_bits(compiled(List{x, bias, w})[1], gradient({x, bias, w})[1])) << name;
  }
}

// Another reader of the argument; two values of it, which would both have to be kept; a cheap slope; a condition; a
// maker that is cheap, which is better left to run within a product.
TEST(EarlySlopes, other_gradients_stay) {
  using namespace rows;
  using Formula = Expressions (*)(const Expressions&);
  struct Case {
    const char* name;
    Formula gradient;  // of x and dy
    Formula f = [](const Expressions& in) -> Expressions { return {exp(in[0])}; };
    bool read_again = false;
    bool stays = true;
  };
  const Formula slope = [](const Expressions& in) -> Expressions { return {in[1] * sin(in[0])}; };
  const std::vector<Case> cases = {
      {.name = "none of these", .gradient = slope, .stays = false},
      {.name = "two readers", .gradient = slope, .read_again = true},
      {.name = "two values",
       .gradient = [](const Expressions& in) -> Expressions { return {in[1] * sin(in[0]) + cos(in[0])}; }},
      {.name = "the argument",
       .gradient = [](const Expressions& in) -> Expressions { return {in[1] * sin(in[0]) + in[0]}; }},
      {.name = "a cheap slope",
       .gradient = [](const Expressions& in) -> Expressions { return {in[1] * square(in[0])}; }},
      {.name = "a condition",
       .gradient = [](const Expressions& in) -> Expressions { return {where(sin(in[0]) > 0, in[1], 0)}; }},
      {.name = "a cheap maker", .gradient = slope, .f = [](const Expressions& in) -> Expressions {
         return {relu(in[0])};
       }}};
  for (const Case& c : cases) {
    const Graph graph = fused({matrix, matrix, square_matrix}, [&](const List& in) {
      const Tensor x = in[0] + in[1];
      const Tensor y = matmul(run_written(write_program(1, c.f), {x})[0], in[2]);
      List results{y, run_written(write_program(2, c.gradient), {x, y})[0]};
      if (c.read_again) results.push_back(x);
      return results;
    });
    EXPECT_EQ(print(take_slopes_early(graph)) == print(graph), c.stays) << c.name << print(graph);
  }
}

// Where the function may have to be computed again, its argument is kept.
TEST(EarlySlopes, plans_that_recompute_keep_the_argument) {
  const Graph graph = traced({matrix, matrix, square_matrix}, [](const List& in) {
    return gradient_of([](const Tensor& x) { return gelu(x, {.approximate = true}); }, in);
  });
  const Ladder ladder = ladder_of(graph, {0});
  EXPECT_EQ(last_rows(ladder.build({}).graph), 1u);
  EXPECT_GT(last_rows(ladder.build({1, 1}).graph), 1u);
}

}  // namespace
}  // namespace thalweg
