// How updates of variables are ordered and joined.
#include "tests/graph/pass_testing.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/plan/group_updates.h"
#include "thalweg/plan/schedule.h"

namespace thalweg {
namespace {

using namespace thalweg::testing;

// v - 0.1 g, as a single program.
void descend(Variable& v, const Tensor& gradient) { v.assign_sub(gradient * 0.1f); }

TEST(Updates, small_ones_wait_for_each_other) {
  Variable a(zeros({3}), {.name = "a"}), b(zeros({2000}), {.name = "b"}), c(zeros({2}), {.name = "c"});
  const Graph graph = fuse(traced({{f32, {3}}, {f32, {2000}}, {f32, {2}}}, [&](const List& x) {
    descend(a, x[0]), descend(b, x[1]), descend(c, x[2]);
    return List{cumsum(x[1])};
  }));
  std::vector<ValueId> order;
  for (const Node& node : schedule(graph).nodes) order.push_back(node.outputs[0]);
  const auto place = [&](const Variable& v) {
    for (const auto& variable : graph.variables)
      if (variable.variable.name() == v.name())
        return std::find(order.begin(), order.end(), variable.update) - order.begin();
    return std::ptrdiff_t{-1};
  };
  EXPECT_EQ(place(b), 0);
  EXPECT_EQ(place(a), 2);
  EXPECT_EQ(place(c), 3);
}

TEST(Updates, those_by_one_program_are_one_node) {
  Variable a(zeros({3}), {.name = "a"}), b(zeros({2, 2}), {.name = "b"}), c(zeros({3}), {.name = "c"});
  const Graph graph = fuse(traced({{f32, {3}}, {f32, {2, 2}}, {f32, {3}}}, [&](const List& x) {
    descend(a, x[0]);
    c.assign_sub(exp(x[2]));
    descend(b, x[1]);
    return List{};
  }));
  expect_pass(group_updates, graph, R"(
function "f" (%0 f32 [3], %1 f32 [2, 2], %2 f32 [3])
variable a %5 f32 [3] -> %6
variable c %8 f32 [3] -> %9
variable b %11 f32 [2, 2] -> %12
%6 f32 [3] = fused %0 %5 {inputs = 2, constants = [0.10000000149011612], rows = "multiply subtract", operands = [0, 2, -1, 1, 3, -1], outputs = [4], dtypes = [0]}
%9 f32 [3] = fused %2 %8 {inputs = 2, constants = [], rows = "exp subtract", operands = [0, -1, -1, 1, 2, -1], outputs = [3], dtypes = [0]}
%12 f32 [2, 2] = fused %1 %11 {inputs = 2, constants = [0.10000000149011612], rows = "multiply subtract", operands = [0, 2, -1, 1, 3, -1], outputs = [4], dtypes = [0]}
return 
)",
              R"(
function "f" (%0 f32 [3], %1 f32 [2, 2], %2 f32 [3])
variable a %5 f32 [3] -> %6
variable c %8 f32 [3] -> %9
variable b %11 f32 [2, 2] -> %12
%6 f32 [3], %12 f32 [2, 2] = fused_each %0 %5 %1 %11 {sets = 2, inputs = 2, constants = [0.10000000149011612], rows = "multiply subtract", operands = [0, 2, -1, 1, 3, -1], outputs = [4], dtypes = [0]}
%9 f32 [3] = fused %2 %8 {inputs = 2, constants = [], rows = "exp subtract", operands = [0, -1, -1, 1, 2, -1], outputs = [3], dtypes = [0]}
return 
)");
}

// Each reads what the other one changes: they cannot run at once.
TEST(Updates, those_that_read_each_other_stay_apart) {
  Variable a(ones({3}), {.name = "a"}), b(ones({3}), {.name = "b"});
  const Graph graph = fuse(traced({}, [&](const List&) {
    const Tensor of_a = a.value(), of_b = b.value();
    a.assign(of_a - of_b * 0.1f), b.assign(of_b - of_a * 0.1f);
    return List{};
  }));
  EXPECT_EQ(print(group_updates(graph)), print(graph));
}

// What is looked up afterwards may be refused: until then the new values stand beside the variables.
TEST(Updates, those_that_wait_for_a_check_are_the_same_as_one_by_one) {
  const auto averages = [](std::vector<Variable>& moving, const Tensor& x, const Tensor& ids) {
    const auto [y, mean, variance] = batch_norm(x, ones({2000}), zeros({2000}));
    moving[0].assign(moving[0].value() * 0.9f + mean * 0.1f);
    moving[1].assign(moving[1].value() * 0.9f + variance * 0.1f);
    return reduce_sum(gather(x, ids)) + reduce_sum(y * mean);  // mean lives on, variance ends in its update
  };
  const auto made = [] { return std::vector<Variable>{Variable(zeros({2000})), Variable(ones({2000}))}; };
  std::vector<Variable> compiled = made(), eager = made();
  const auto step = function([&](const Tensor& x, const Tensor& ids) { return averages(compiled, x, ids); });
  const Tensor x = random::normal({16, 2000}), ids = tensor({3, 1});
  for (int i = 0; i < 3; ++i) step(x, ids), averages(eager, x, ids);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto got = compiled[i].value().to_vector<float>(), expected = eager[i].value().to_vector<float>();
    for (std::size_t j = 0; j < got.size(); ++j) ASSERT_NEAR(got[j], expected[j], 1e-5) << i << " " << j;
  }
}

// Sizes around whole vectors, in one task and in several.
TEST(Updates, a_step_over_many_variables_is_the_same_as_one_by_one) {
  std::vector<Variable> compiled, eager;
  for (std::int64_t size : {1, 2, 15, 16, 17, 100, 1000, 40000, 33, 70001}) {
    const Tensor value = random::normal({size}, {.seed = static_cast<std::uint64_t>(size)});
    compiled.emplace_back(value), eager.emplace_back(value);
  }
  const auto update = [](std::vector<Variable>& variables, const Tensor& rate) {
    for (auto& variable : variables) variable.assign_sub(tanh(variable.value()) * rate);
  };
  const auto step = function([&](const Tensor& rate) {
    update(compiled, rate);
    return rate + 1;
  });
  const Tensor rate = full({}, 0.1f);
  step(rate), update(eager, rate);
  EXPECT_NE(step.plan(rate).dump("plan").find("fused_each"), std::string::npos);
  for (std::size_t i = 0; i < eager.size(); ++i)
    EXPECT_EQ(compiled[i].value().to_vector<float>(), eager[i].value().to_vector<float>()) << i;
}

}  // namespace
}  // namespace thalweg
