// Updates made of the factors of a gradient.
#include <cmath>
#include <limits>
#include <memory>

#include "tests/graph/pass_testing.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/fused/fused_product.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"
#include "thalweg/plan/join_products.h"
#include "thalweg/plan/ladder.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/plan/schedule.h"

namespace thalweg {
namespace {

using namespace thalweg::testing;

constexpr std::int64_t wide = 256;

Graph scheduled(const std::vector<Spec>& arguments, const std::function<List(const List&)>& f) {
  return schedule(fuse_reductions(fuse(traced(arguments, f))));
}

const std::vector<Spec> factors{{f32, {4, wide}}, {f32, {4, wide}}};

Tensor gradient_of(const List& x) { return matmul(x[0], x[1], {.transpose_a = true}); }

TEST(JoinProducts, an_update_is_made_of_the_factors) {
  Variable w(zeros({wide, wide}), {.name = "w"});
  const Graph graph = scheduled(factors, [&](const List& x) {
    const Tensor gradient = gradient_of(x);
    const Tensor norm = sqrt(reduce_sum(square(gradient)));
    w.assign_sub(gradient * norm);
    return List{};
  });
  expect_pass(join_products, graph, R"(
function "f" (%0 f32 [4, 256], %1 f32 [4, 256])
variable w %7 f32 [256, 256] -> %8
%2 f32 [256, 256] = matmul %0 %1 {transpose_a = 1, transpose_b = 0, wide_result = 0}
%4 f32 [] = fused_reduce %2 {inputs = 1, constants = [], rows = "square", operands = [0, -1, -1], outputs = [1], reduction = "reduce_sum", axes = 1, keepdims = 0, wide_result = 0}
%5 f32 [] = fused %4 {inputs = 1, constants = [], rows = "sqrt", operands = [0, -1, -1], outputs = [1], dtypes = [0]}
%8 f32 [256, 256] = fused %2 %5 %7 {inputs = 3, constants = [], rows = "multiply subtract", operands = [0, 1, -1, 2, 3, -1], outputs = [4], dtypes = [0]}
return 
)",
              R"(
function "f" (%0 f32 [4, 256], %1 f32 [4, 256])
variable w %7 f32 [256, 256] -> %8
%4 f32 [] = product_squares %0 %1
%5 f32 [] = fused %4 {inputs = 1, constants = [], rows = "sqrt", operands = [0, -1, -1], outputs = [1], dtypes = [0]}
%8 f32 [256, 256] = fused_product %0 %1 %5 %7 {product = 0, inputs = 3, constants = [], rows = "multiply subtract", operands = [0, 1, -1, 2, 3, -1], outputs = [4], dtypes = [0]}
return 
)");
}

// Each of these reads the gradient in a way that wants all of it, or would not gain.
TEST(JoinProducts, other_gradients_stay) {
  Variable w(zeros({wide, wide}), {.name = "w"}), small(zeros({8, 8}), {.name = "small"});
  const auto expect_same = [](const Graph& graph) { EXPECT_EQ(print(join_products(graph)), print(graph)); };
  const auto descend = [&](const Tensor& gradient) { w.assign_sub(gradient * 0.1f); };
  expect_same(scheduled(factors, [&](const List& x) {
    const Tensor gradient = gradient_of(x);
    descend(gradient);
    return List{gradient};
  }));
  expect_same(scheduled(factors, [&](const List& x) {
    const Tensor gradient = gradient_of(x);
    descend(gradient);
    return List{reduce_max(gradient)};
  }));
  expect_same(scheduled({{f32, {wide, wide}}, {f32, {wide, wide}}}, [&](const List& x) {  // too deep
    descend(gradient_of(x));
    return List{};
  }));
  expect_same(scheduled({{f32, {4, 8}}, {f32, {4, 8}}}, [&](const List& x) {
    small.assign_sub(gradient_of(x) * 0.1f);
    return List{};
  }));
  expect_same(scheduled({{f32, {2 * wide, wide}}, {f32, {4, wide}}}, [&](const List& x) {  // a view of more than it
    descend(gradient_of({slice(tanh(x[0]), {0, 0}, {4, wide}), x[1]}));
    return List{};
  }));
  expect_same(scheduled(factors, [&](const List& x) {  // the transposed product
    descend(transpose(gradient_of(x)));
    return List{};
  }));
}

// For any number of threads.
TEST(JoinProducts, no_workspace_takes_more_than_the_product_would) {
  const Program program{2, {}, {{Row::subtract, {0, 1, -1}}}, {2}};
  const auto op = make_fused_product(make_fused(program, {}).get(), 1);
  const int before = config::threads();
  const std::int64_t sizes[][3] = {{1, 3, 16384},    {1, 182, 182},    {16, 256, 128},   {96, 192, 192},
                                   {32, 256, 256},   {128, 256, 256},  {64, 256, 512},   {128, 1024, 1024},
                                   {512, 784, 1024}, {300, 450, 1024}, {512, 1024, 1024}};
  for (const int threads : {1, 2, 16})
    for (const auto& [depth, m, n] : sizes) {
      config::set_threads(threads);
      const Spec a{f32, {depth, m}}, b{f32, {depth, n}}, w{f32, {m, n}};
      const Spec* list[] = {&a, &b, &w};
      const Inputs all(list), both({list, 2});
      const std::int64_t most = memory::rounded(w.bytes());
      EXPECT_LE(fused_product_info().workspace(op.get(), all), most) << depth << " " << w.shape;
      if (4 * depth * (m + n) > m * n) continue;
      EXPECT_LE(product_squares_info().workspace(product_squares_info().make().get(), both), most)
          << depth << " " << w.shape;
    }
  config::set_threads(before);
}

// Deeper than panels are packed at once, and with columns that fill no vector.
TEST(JoinProducts, deep_factors_of_long_rows_are_joined) {
  Variable w(random::normal({460, 1030}, {.seed = 1}), {.name = "w"});
  const Tensor x = random::normal({300, 460}, {.seed = 2}), y = random::normal({300, 1030}, {.seed = 3});
  const auto step = [&](const Tensor& a, const Tensor& b) {
    w.assign_sub(matmul(a, b, {.transpose_a = true}) * 0.5f);
    return List{};
  };
  const Tensor want = w.value() - matmul(x, y, {.transpose_a = true}) * 0.5f;
  const auto compiled = function(step);
  const bool joined = compiled.plan(x, y).dump("plan").find("fused_product") != std::string::npos;
  EXPECT_EQ(joined, fused_product_pays(f32, 300, 460, 1030));
  compiled(x, y);
  EXPECT_LT(reduce_max(abs(w.value() - want)).item<float>(), 1e-4f);
  for (const auto& [depth, m, n] :
       std::vector<std::array<std::int64_t, 3>>{{513, 4096, 4096}, {300, 449, 1030}, {300, 460, 1023}})
    EXPECT_FALSE(fused_product_pays(f32, depth, m, n)) << depth << " " << m << " " << n;
  EXPECT_FALSE(fused_product_pays(f64, 300, 460, 1030));
}

// As a file may have it, though no trace does.
TEST(JoinProducts, a_program_may_choose_by_the_product) {
  const Program program{2, {}, {{Row::where, {0, 1, 1}}, {Row::add, {2, 1, -1}}}, {3}};
  const auto op = make_fused_product(make_fused(program, {}).get(), 0);
  const Tensor x[] = {ones({2, 8}), ones({2, 9}), ones({8, 9})};
  EXPECT_EQ(reduce_sum(apply(fused_product_info(), op.get(), x)[0]).item<float>(), 2 * 8 * 9);
}

// On a processor with tiles of 16 bits factors are multiplied in parts; such numbers have none.
TEST(JoinProducts, factors_that_are_not_finite_give_what_a_product_does) {
  const Program program{2, {}, {{Row::add, {0, 1, -1}}}, {2}};
  const auto op = make_fused_product(make_fused(program, {}).get(), 0);
  std::vector<float> a(128 * 300, 0.5f), b(128 * 400, 0.25f);
  a[7 * 300 + 33] = std::numeric_limits<float>::infinity();
  for (const float bad : {0.25f, 1e38f, std::numeric_limits<float>::quiet_NaN()}) {
    b[9 * 400 + 70] = bad;
    const Tensor in[] = {Tensor::from(a, {128, 300}), Tensor::from(b, {128, 400}), zeros({300, 400})};
    const auto want = matmul(in[0], in[1], {.transpose_a = true}).to_vector<float>();
    const auto got = apply(fused_product_info(), op.get(), in)[0].to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i]) << want[i] << " " << got[i];
  }
}

// A variable that is a factor of another one's gradient and is updated itself.
TEST(JoinProducts, a_factor_that_changes_is_read_before) {
  Variable w(zeros({wide, wide}), {.name = "w"}), x(ones({4, wide}), {.name = "x"});
  const auto step = [&](const Tensor& y) {
    const Tensor before = x.value();
    x.assign(before * 0.5f);
    w.assign_sub(matmul(before, y, {.transpose_a = true}) * 0.1f);
    return reduce_sum(w.value());
  };
  const auto compiled = function(step);
  const Tensor y = ones({4, wide});
  EXPECT_NEAR(compiled(y).item<float>(), -0.4f * wide * wide, 1);
  EXPECT_NEAR(compiled(y).item<float>(), -0.6f * wide * wide, 1);
}

using MakeOptimizer = std::shared_ptr<optim::Optimizer> (*)();

struct Net {
  explicit Net(const MakeOptimizer& make) : optimizer(make()) {}

  // The norm of the gradients.
  Tensor operator()(const Tensor& x, const Tensor& y, const Tensor& proceed) {
    GradientTape tape;
    const Tensor loss = reduce_mean(squared_difference(matmul(tanh(matmul(x, first)), second), y)) * 100;
    const std::vector<Variable> weights{first, second};
    Tensor norm;
    optimizer->apply(tape.gradient(loss, weights), weights,
                     {.examples = x.shape()[0], .only_if = proceed, .gradient_norm = &norm});
    return norm;
  }

  std::vector<Variable> variables() const {
    std::vector<Variable> all{first, second};
    for (const auto& state : optimizer->variables()) all.push_back(state);
    return all;
  }

  Variable first{random::normal({wide, 512}, {.stddev = 0.05, .seed = 1}), {.name = "first"}};
  Variable second{random::normal({512, wide}, {.stddev = 0.05, .seed = 2}), {.name = "second"}};
  std::shared_ptr<optim::Optimizer> optimizer;
};

struct Case {
  const char* name;
  MakeOptimizer make;
  bool joins = true;
};

template <class Optimizer, class Options>
std::shared_ptr<optim::Optimizer> made(const Options& options) {
  return std::make_shared<Optimizer>(options);
}

const Case cases[] = {
    {"sgd", [] { return made<optim::SGD>(optim::SGDOptions{.learning_rate = 0.01, .momentum = 0.9}); }},
    {"adam_clipped",
     [] { return made<optim::Adam>(optim::AdamOptions{.learning_rate = 0.01, .global_clip_norm = 0.5}); }},
    {"adam_clipped_one_by_one",
     [] { return made<optim::Adam>(optim::AdamOptions{.learning_rate = 0.01, .clip_norm = 0.5}); }},
    {"adam_accumulating",
     [] { return made<optim::Adam>(optim::AdamOptions{.learning_rate = 0.01, .accumulate_steps = 3}); }, false},
    {"adamw_averaged",
     [] {
       return made<optim::AdamW>(
           optim::AdamWOptions{.learning_rate = 0.01, .global_clip_norm = 0.5, .ema_momentum = 0.9});
     }},
    {"rmsprop", [] { return made<optim::RMSprop>(optim::RMSpropOptions{.learning_rate = 0.01, .momentum = 0.5}); }},
    {"lion", [] { return made<optim::Lion>(optim::LionOptions{.learning_rate = 0.001}); }},
    {"adagrad", [] { return made<optim::Adagrad>(optim::AdagradOptions{.learning_rate = 0.05}); }},
};

class JoinedStep : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(, JoinedStep, ::testing::ValuesIn(cases),
                         [](const auto& param) { return std::string(param.param.name); });

// Some of the steps change nothing.
TEST_P(JoinedStep, holds_no_gradient_and_is_the_same_as_eager) {
  Net compiled(GetParam().make), eager(GetParam().make);
  const Tensor x = random::normal({16, wide}, {.seed = 3}), y = random::normal({16, wide}, {.seed = 4});
  const auto step =
      function([&](const Tensor& a, const Tensor& b, const Tensor& proceed) { return compiled(a, b, proceed); });
  for (const bool proceed : {true, true, false, true, true}) {
    const Tensor all = scalar(proceed, boolean);
    const float got = step(x, y, all).item<float>(), expected = eager(x, y, all).item<float>();
    EXPECT_NEAR(got, expected, 2e-5 * expected);
    EXPECT_GT(expected, 0.5f);  // they are clipped
  }
  const std::string plan = step.plan(x, y, scalar(true, boolean)).dump("plan");
  EXPECT_EQ(plan.find("fused_product") != std::string::npos, GetParam().joins);
  EXPECT_EQ(plan.find("transpose_a = 1") == std::string::npos, GetParam().joins);
  const auto got = compiled.variables(), expected = eager.variables();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t v = 0; v < got.size(); ++v)
    EXPECT_LT(reduce_max(abs(cast(got[v], f64) - cast(expected[v], f64))).item<double>(), 1e-4) << expected[v].name();
}

// Without norms there is nothing but the sums to hold.
TEST(JoinProducts, an_accumulating_step_holds_no_gradient) {
  Variable w(random::normal({wide, wide}, {.seed = 1}), {.name = "w"}), same(w.value(), {.name = "w"});
  optim::SGD compiled({.learning_rate = 0.1, .accumulate_steps = 3}),
      eager({.learning_rate = 0.1, .accumulate_steps = 3});
  const auto descend = [](Variable& weights, optim::SGD& sgd, const Tensor& x) {
    GradientTape tape;
    const Tensor loss = reduce_mean(square(matmul(x, weights)));
    const std::vector<Variable> all{weights};
    sgd.apply(tape.gradient(loss, all), all, {.examples = x.shape()[0]});
    return loss;
  };
  const auto step = function([&](const Tensor& x) { return descend(w, compiled, x); });
  for (int i = 0; i < 7; ++i) {
    const Tensor x = random::normal({8, wide}, {.seed = static_cast<std::uint64_t>(i)});
    step(x), descend(same, eager, x);
    EXPECT_LT(reduce_max(abs(w - same)).item<float>(), 1e-6f) << i;
  }
  EXPECT_NE(step.plan(Spec{f32, {8, wide}}).dump("plan").find("fused_product"), std::string::npos);
}

// A step that returns the norm of its gradient.
struct NormedStep {
  Tensor operator()(const Tensor& x, const Tensor& dy) {
    const Tensor gradient = matmul(x, dy, {.transpose_a = true});
    w.assign_sub(gradient * 0.1f);
    return sqrt(reduce_sum(square(gradient)));
  }
  Variable w{zeros({wide, wide}), {.name = "w"}};
};

// Rows that cancel each other: the norm of the sum is a thousandth of theirs.
TEST(JoinProducts, the_norm_keeps_its_digits_where_rows_cancel) {
  NormedStep body;
  const auto step = function([&](const Tensor& x, const Tensor& dy) { return body(x, dy); });
  const Tensor row = random::normal({1, wide}, {.seed = 5}), other = random::normal({1, wide}, {.seed = 6});
  const Tensor x = concat({row, row}, 0), dy = concat({other, other * -(1 - 1.0f / (1 << 10))}, 0);
  const float expected = global_norm({reduce_sum(dy, {.axes = {0}})}).item<float>() * global_norm({row}).item<float>();
  EXPECT_NEAR(step(x, dy).item<float>(), expected, 1e-6 * expected);
  EXPECT_NE(step.plan(x, dy).dump("plan").find("product_squares"), std::string::npos);
}

// Squares of the rows' elements would be no normal floats, and those of their product are.
TEST(JoinProducts, the_norm_counts_rows_of_tiny_numbers) {
  NormedStep body;
  const auto step = function([&](const Tensor& x, const Tensor& dy) { return body(x, dy); });
  const Tensor x = random::normal({3, wide}, {.seed = 5}), dy = random::normal({3, wide}, {.seed = 6});
  const float expected = global_norm({matmul(x, dy, {.transpose_a = true})}).item<float>();
  EXPECT_NEAR(step(x * 1e-25f, dy * 1e25f).item<float>(), expected, 1e-5 * expected);
  const Tensor rows = reshape(tensor({1e-25f, 1.f, 1.f}), {3, 1}), others = reshape(tensor({1e25f, 0.f, 1.f}), {3, 1});
  const Tensor mixed = x * rows, factors = dy * others;
  const float both = global_norm({matmul(mixed, factors, {.transpose_a = true})}).item<float>();
  EXPECT_NEAR(step(mixed, factors).item<float>(), both, 1e-5 * both);
}

// Rows of any number and width, whole vectors or not.
TEST(JoinProducts, the_norm_is_that_of_the_product) {
  NormedStep body;
  const auto step = function([&](const Tensor& x, const Tensor& dy) { return body(x, dy); });
  for (std::int64_t rows : {1, 2, 5, 31, 64}) {
    const Tensor x = random::normal({rows, wide}, {.mean = 0.5, .seed = 7}),
                 dy = random::normal({rows, wide}, {.seed = 8});
    const Tensor product = matmul(cast(x, f64), cast(dy, f64), {.transpose_a = true});
    const double expected = std::sqrt(reduce_sum(square(product)).item<double>());
    EXPECT_NEAR(step(x, dy).item<float>(), expected, 1e-6 * expected) << rows;
  }
}

// Nothing is left but roundings: their squares, too, add up to no less than nothing.
TEST(JoinProducts, the_norm_of_rows_that_cancel_wholly_is_a_number) {
  NormedStep body;
  const auto step = function([&](const Tensor& x, const Tensor& dy) { return body(x, dy); });
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Tensor row = random::normal({1, wide}, {.seed = seed});
    const Tensor some = round(random::normal({4, wide}, {.seed = seed + 100}) * 1024) / 1024;
    const Tensor x = concat({row, row, row, row, row}, 0);
    const Tensor dy = concat({some, -reduce_sum(some, {.axes = {0}, .keepdims = true})}, 0);
    const float norm = step(x, dy).item<float>();
    EXPECT_TRUE(norm >= 0 && norm < 1e-3f) << norm;
  }
}

TEST(JoinProducts, the_norm_tells_infinity_from_no_number) {
  NormedStep body;
  const auto step = function([&](const Tensor& x, const Tensor& dy) { return body(x, dy); });
  const float infinity = std::numeric_limits<float>::infinity();
  const auto with = [](float value) { return concat({full({1, 1}, value), ones({1, wide - 1})}, 1); };
  const Tensor whole = ones({1, wide});
  EXPECT_EQ(step(with(infinity), whole).item<float>(), infinity);
  EXPECT_EQ(step(whole, with(-infinity)).item<float>(), infinity);
  EXPECT_TRUE(std::isnan(step(with(infinity), with(0)).item<float>()));
  EXPECT_TRUE(std::isnan(step(whole, with(std::nanf(""))).item<float>()));
  EXPECT_EQ(step(with(3e38f), with(3e38f)).item<float>(), infinity);
}

// Recomputation is chosen where gradients that are never there take no memory: with them the most would be alive where
// they are clipped, and nothing could be gained.
TEST(JoinProducts, a_clipped_step_that_recomputes_takes_less) {
  std::vector<Variable> weights;
  for (int i = 0; i < 6; ++i) weights.emplace_back(random::normal({512, 512}, {.stddev = 0.05}));
  optim::Adam adam({.global_clip_norm = 0.1});
  const auto step = function([&](const Tensor& x) {
    GradientTape tape;
    Tensor hidden = x;
    for (const Variable& w : weights) {
      const Tensor sum = matmul(hidden, w);
      hidden = sum * sigmoid(sum) * tanh(sum);
    }
    const Tensor loss = reduce_mean(square(hidden));
    adam.apply(tape.gradient(loss, weights), weights);
    return loss;
  });
  const Ladder ladder = ladder_of(step.plan(Spec{f32, {32, 512}}).state().traced, {});
  const Compiled kept = ladder.build({1, 0}), cheap = ladder.build({1, 3}), forward = ladder.build({1, most_effort});
  EXPECT_LT(cheap.executable->workspace(), kept.executable->workspace() * 2 / 3);
  EXPECT_LT(forward.executable->workspace(), kept.executable->workspace() * 2 / 3);
  for (const Compiled* compiled : {&kept, &cheap, &forward})
    EXPECT_EQ(print(compiled->graph).find("transpose_a = 1"), std::string::npos);
}

}  // namespace
}  // namespace thalweg
