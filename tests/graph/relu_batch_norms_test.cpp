// Relus of batch norms, with residuals and gradients, are taken as the norms are computed.
#include <limits>

#include "tests/graph/pass_testing.h"
#include "tests/support/values.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

using testing::expect_pass, testing::same_bits, testing::traced;
using List = testing::List;

const std::vector<Spec> operands{{f32, {6, 3}}, {f32, {3}}, {f32, {3}}, {f32, {6, 3}}};

int count(const Graph& graph, const OpInfo& info) {
  int found = 0;
  for (const auto& node : graph.nodes) found += is_op(node, info);
  return found;
}

// x, scale, offset, dz -> the relu, the statistics, the gradients
List normed_relu(const List& x) {
  GradientTape tape;
  for (const auto& input : {x[0], x[1], x[2]}) tape.watch(input);
  const auto [y, mean, variance] = batch_norm(x[0], x[1], x[2]);
  const Tensor z = relu(y);
  const auto gradients = tape.gradient(z, List{x[0], x[1], x[2]}, {.output_gradients = {x[3]}});
  return {z, mean, variance, gradients[0], gradients[1], gradients[2]};
}

TEST(ReluBatchNorms, relus_and_their_gradients_become_one_op_with_the_norm) {
  expect_pass(relu_batch_norms, traced(operands, normed_relu), R"(
function "f" (%0 f32 [6, 3], %1 f32 [3], %2 f32 [3], %3 f32 [6, 3])
%4 f32 [6, 3], %5 f32 [3], %6 f32 [3], %7 f32 [3] = batch_norm %0 %1 %2 {epsilon = 0.001}
%8 f32 [6, 3] = relu %4
%9 f32 [6, 3] = fused %8 %3 {inputs = 2, constants = [0], rows = "greater where", operands = [0, 2, -1, 3, 1, 2], outputs = [4], dtypes = []}
%10 f32 [6, 3], %11 f32 [3], %12 f32 [3] = batch_norm_backward %0 %1 %5 %7 %9 {epsilon = 0.001}
return %8, %5, %6, %10, %11, %12
)",
              R"(
function "f" (%0 f32 [6, 3], %1 f32 [3], %2 f32 [3], %3 f32 [6, 3])
%13 f32 [6, 3], %14 f32 [3], %15 f32 [3], %16 f32 [3] = batch_norm_relu %0 %1 %2 {epsilon = 0.001}
%17 f32 [6, 3], %18 f32 [3], %19 f32 [3] = batch_norm_relu_backward %0 %1 %2 %14 %16 %3 {epsilon = 0.001}
return %13, %14, %15, %17, %18, %19
)");
}

TEST(ReluBatchNorms, residuals_are_added_in_either_order_and_the_gradient_stays) {
  const Graph graph = traced(operands, [](const List& x) {
    GradientTape tape;
    tape.watch(x[0]);
    const Tensor first = relu(x[3] + batch_norm(x[0], x[1], x[2]).y);
    const Tensor second = relu(batch_norm(first, x[1], x[2]).y + first);
    return List{tape.gradient(second, x[0], {.output_gradients = {x[3]}})};
  });
  expect_pass(relu_batch_norms, graph, R"(
function "f" (%0 f32 [6, 3], %1 f32 [3], %2 f32 [3], %3 f32 [6, 3])
%4 f32 [6, 3], %5 f32 [3], %6 f32 [3], %7 f32 [3] = batch_norm %0 %1 %2 {epsilon = 0.001}
%8 f32 [6, 3] = add %3 %4
%9 f32 [6, 3] = relu %8
%10 f32 [6, 3], %11 f32 [3], %12 f32 [3], %13 f32 [3] = batch_norm %9 %1 %2 {epsilon = 0.001}
%14 f32 [6, 3] = add %10 %9
%15 f32 [6, 3] = relu %14
%16 f32 [6, 3] = fused %15 %3 {inputs = 2, constants = [0], rows = "greater where", operands = [0, 2, -1, 3, 1, 2], outputs = [4], dtypes = []}
%17 f32 [6, 3], %18 f32 [3], %19 f32 [3] = batch_norm_backward %9 %1 %11 %13 %16 {epsilon = 0.001}
%20 f32 [6, 3] = add %16 %17
%21 f32 [6, 3] = fused %9 %20 {inputs = 2, constants = [0], rows = "greater where", operands = [0, 2, -1, 3, 1, 2], outputs = [4], dtypes = []}
%22 f32 [6, 3], %23 f32 [3], %24 f32 [3] = batch_norm_backward %0 %1 %5 %7 %21 {epsilon = 0.001}
return %22
)",
              R"(
function "f" (%0 f32 [6, 3], %1 f32 [3], %2 f32 [3], %3 f32 [6, 3])
%25 f32 [6, 3], %26 f32 [3], %27 f32 [3], %28 f32 [3] = batch_norm_relu %0 %1 %2 %3 {epsilon = 0.001}
%29 f32 [6, 3], %30 f32 [3], %31 f32 [3], %32 f32 [3] = batch_norm_relu %25 %1 %2 %25 {epsilon = 0.001}
%16 f32 [6, 3] = fused %29 %3 {inputs = 2, constants = [0], rows = "greater where", operands = [0, 2, -1, 3, 1, 2], outputs = [4], dtypes = []}
%17 f32 [6, 3], %18 f32 [3], %19 f32 [3] = batch_norm_backward %25 %1 %30 %32 %16 {epsilon = 0.001}
%20 f32 [6, 3] = add %16 %17
%21 f32 [6, 3] = fused %25 %20 {inputs = 2, constants = [0], rows = "greater where", operands = [0, 2, -1, 3, 1, 2], outputs = [4], dtypes = []}
%22 f32 [6, 3], %23 f32 [3], %24 f32 [3] = batch_norm_backward %0 %1 %26 %28 %21 {epsilon = 0.001}
return %22
)");
}

// Of two norms that are added the later one takes the other's result.
TEST(ReluBatchNorms, the_later_of_two_norms_takes_the_sum) {
  const Graph graph = traced(operands, [](const List& x) {
    const Tensor early = batch_norm(x[0], x[1], x[2]).y, late = batch_norm(x[3], x[1], x[2]).y;
    return List{relu(early + late)};
  });
  expect_pass(relu_batch_norms, graph, R"(
function "f" (%0 f32 [6, 3], %1 f32 [3], %2 f32 [3], %3 f32 [6, 3])
%4 f32 [6, 3], %5 f32 [3], %6 f32 [3], %7 f32 [3] = batch_norm %0 %1 %2 {epsilon = 0.001}
%8 f32 [6, 3], %9 f32 [3], %10 f32 [3], %11 f32 [3] = batch_norm %3 %1 %2 {epsilon = 0.001}
%12 f32 [6, 3] = add %4 %8
%13 f32 [6, 3] = relu %12
return %13
)",
              R"(
function "f" (%0 f32 [6, 3], %1 f32 [3], %2 f32 [3], %3 f32 [6, 3])
%4 f32 [6, 3], %5 f32 [3], %6 f32 [3], %7 f32 [3] = batch_norm %0 %1 %2 {epsilon = 0.001}
%14 f32 [6, 3], %15 f32 [3], %16 f32 [3], %17 f32 [3] = batch_norm_relu %3 %1 %2 %4 {epsilon = 0.001}
return %14
)");
}

TEST(ReluBatchNorms, norms_stay_where_others_read_them_or_the_residual_is_not_there) {
  const auto stays = [](const std::function<List(const Tensor& y, const List& x)>& f) {
    const Graph graph = traced(operands, [&](const List& x) { return f(batch_norm(x[0], x[1], x[2]).y, x); });
    return print(relu_batch_norms(graph)) == print(graph);
  };
  EXPECT_FALSE(stays([](const Tensor& y, const List&) { return List{relu(y)}; }));
  EXPECT_TRUE(stays([](const Tensor& y, const List&) { return List{relu(y), exp(y)}; }));
  EXPECT_TRUE(stays([](const Tensor& y, const List&) { return List{relu(y), y}; }));
  EXPECT_TRUE(stays([](const Tensor& y, const List&) { return List{relu(y + y)}; }));
  EXPECT_TRUE(stays([](const Tensor& y, const List&) { return List{relu6(y)}; }));
  EXPECT_TRUE(stays([](const Tensor& y, const List&) { return List{relu(reshape(y, {3, 6}))}; }));
  EXPECT_FALSE(stays([](const Tensor& y, const List& x) { return List{relu(y + x[3])}; }));
  EXPECT_TRUE(stays([](const Tensor& y, const List& x) { return List{relu(y - x[3])}; }));
  EXPECT_TRUE(stays([](const Tensor& y, const List& x) { return List{relu(y + x[1])}; }));
  EXPECT_TRUE(stays([](const Tensor& y, const List& x) { return List{relu(y + reshape(x[3], {1, 6, 3}))}; }));
  EXPECT_TRUE(stays([](const Tensor& y, const List& x) { return List{relu(y + exp(x[3]))}; }));  // is made later
  EXPECT_TRUE(stays([](const Tensor& y, const List& x) {
    const Tensor sum = y + x[3];
    return List{relu(sum), exp(sum)};
  }));
}

// Gives the constants of a program another value.
struct NewConstants final : FieldVisitor {
  void integer(std::string_view, std::int64_t&) override {}
  void integers(std::string_view, std::vector<std::int64_t>&) override {}
  void real(std::string_view, double&) override {}
  void reals(std::string_view, std::vector<double>& values) override { values = {0.5}; }
  void text(std::string_view, std::string&) override {}
};

TEST(ReluBatchNorms, gradients_stay_where_they_are_not_those_of_the_relu) {
  const auto joined = [](const std::function<void(Graph&, Node & mask)>& change) {
    Graph graph = traced(operands, normed_relu);
    for (auto& node : graph.nodes)
      if (is_op(node, fused_info())) change(graph, node);
    graph = relu_batch_norms(graph);
    EXPECT_EQ(count(graph, batch_norm_relu_info()), 1);
    EXPECT_EQ(count(graph, batch_norm_relu_backward_info()) + count(graph, batch_norm_backward_info()), 1);
    return count(graph, batch_norm_relu_backward_info()) == 1;
  };
  EXPECT_TRUE(joined([](Graph&, Node&) {}));
  EXPECT_FALSE(joined([](Graph&, Node& mask) {  // another threshold
    NewConstants constants;
    const auto op = mask.info->copy(mask.op.get());
    mask.info->visit(const_cast<void*>(op.get()), constants);
    mask.op = op;
  }));
  EXPECT_FALSE(joined([](Graph& graph, Node& mask) { graph.results.push_back(mask.outputs[0]); }));  // read elsewhere
  EXPECT_FALSE(
      joined([](Graph&, Node& mask) { mask.inputs[0] = mask.inputs[1]; }));  // where something else is positive
  EXPECT_FALSE(joined([](Graph&, Node& mask) { mask.inputs[1] = 1; }));      // a vector for all rows
}

// x, scale, offset, dz stored as S -> what the single ops give, with the casts of a compiled step
List one_by_one(const List& x, const Tensor& residual) {
  const DType stored = x[0].dtype(), inside = x[1].dtype();
  const auto run = [](const OpInfo& info, const List& in) {
    return apply(info, make_attributes(info).get(), std::span(in));
  };
  const Tensors norm = run(batch_norm_info(), {x[0], x[1], x[2]});
  const Tensor y = cast(norm[0], inside);
  const Tensor z = cast(relu(residual.defined() ? cast(residual, inside) + y : y), stored);
  const Tensor dy = cast(where(cast(z, inside) > 0, cast(x[3], inside), 0), stored);
  const Tensors back = run(batch_norm_backward_info(), {x[0], x[1], norm[1], norm[3], dy});
  return {z, norm[1], norm[2], norm[3], back[0], back[1], back[2]};
}

List joined(const List& x, const Tensor& residual) {
  const auto run = [](const OpInfo& info, const List& in) {
    return apply(info, make_attributes(info).get(), std::span(in));
  };
  List in{x[0], x[1], x[2]};
  if (residual.defined()) in.push_back(residual);
  const Tensors norm = run(batch_norm_relu_info(), in);
  const Tensors back = run(batch_norm_relu_backward_info(), {x[0], x[1], x[2], norm[1], norm[3], x[3]});
  return {norm[0], norm[1], norm[2], norm[3], back[0], back[1], back[2]};
}

// Columns of equal values become their offset: zeros of both signs, what is zero in 16 bits alone, and what is no
// number.
TEST(ReluBatchNorms, joined_ops_give_the_bits_of_single_ones) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> edges{0, -0.0, 1e-8, -1e-8, 3e-8, 1e-41, nan, 0.5, -0.5};
  const auto channels = static_cast<std::int64_t>(edges.size()) + 11;
  for (const DType dtype : {f32, f64, f16, bf16}) {
    random::set_seed(3);
    const DType inside = dtype == f64 ? f64 : f32;
    std::vector<double> kept(static_cast<std::size_t>(channels), 1), offsets(kept.size(), 0.1);
    for (std::size_t i = 0; i < edges.size(); ++i) kept[i] = 0, offsets[i] = edges[i];
    const Shape shape{50, channels};
    const auto stored = [&](const Tensor& x) { return cast(x, dtype); };
    const List x{stored(random::normal(shape) * Tensor::from(kept, {channels})),
                 cast(random::normal({channels}), inside), cast(Tensor::from(offsets, {channels}), inside),
                 stored(random::normal(shape))};
    const List want = one_by_one(x, {}), got = joined(x, {});
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << name_of(dtype) << i;
    const Tensor residual = stored(random::normal(shape));
    EXPECT_TRUE(same_bits(joined(x, residual)[0], one_by_one(x, residual)[0])) << name_of(dtype);
  }
}

// A step of two blocks, the first with a norm on the shortcut too: x [128, 64], weights [64, 64], scale, offset.
List residual_step(const List& x) {
  const std::vector<Tensor> variables(x.begin() + 1, x.end());
  GradientTape tape;
  for (const auto& variable : variables) tape.watch(variable);
  const auto norm = [&](const Tensor& value) { return batch_norm(value, x[3], x[4]).y; };
  Tensor h = x[0];
  for (const bool first : {true, false}) {
    const Tensor inner = relu(norm(matmul(h, x[1])));
    const Tensor body = norm(matmul(inner, x[2]));
    h = relu((first ? norm(matmul(h, x[2])) : h) + body);
  }
  const Tensor loss = reduce_mean(square(matmul(h, x[1])));
  List results{loss};
  for (const auto& gradient : tape.gradient(loss, variables)) results.push_back(gradient.dense());
  return results;
}

List residual_operands() {
  random::set_seed(4);
  return {random::normal({128, 64}), random::normal({64, 64}) * 0.125f, random::normal({64, 64}) * 0.125f,
          random::uniform({64}, {.low = 0.5, .high = 1.5}), random::normal({64}) * 0.1f};
}

TEST(ReluBatchNorms, keep_every_bit_of_a_step_in_any_precision) {
  const List x = residual_operands();
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::f16}) {
    Graph graph = traced({x[0].spec(), x[1].spec(), x[2].spec(), x[3].spec(), x[4].spec()}, residual_step);
    graph.precision = precision;
    graph = narrow_values(eliminate_common(graph));
    const Graph changed = relu_batch_norms(graph);
    verify(changed, "the pass");
    EXPECT_EQ(count(changed, batch_norm_relu_info()), 4);
    EXPECT_EQ(count(changed, batch_norm_relu_backward_info()), 2);
    const Tensors want = replay(graph, x), got = replay(changed, x);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
  }
}

TEST(ReluBatchNorms, compiled_steps_give_what_eager_ones_do) {
  const List x = residual_operands(), want = residual_step(x);
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const auto step = function(residual_step, {.name = "residuals", .precision = precision});
    EXPECT_NE(step.plan(x).dump("plan").find("batch_norm_relu_backward"), std::string::npos);
    const List got = step(x);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(testing::near(got[i], want[i], precision == Precision::f32 ? 1e-5 : 0.1)) << i;
  }
}

}  // namespace
}  // namespace thalweg
