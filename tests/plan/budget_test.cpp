#include <gtest/gtest.h>

#include <ctime>

#include "models/models.h"
#include "tests/support/values.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::near;
using testing::same_bits;

Tensor classes(const Shape& shape, std::int64_t count) {
  return random::uniform(shape, {.low = 0, .high = static_cast<double>(count), .seed = 11, .dtype = i64});
}

// A model with its optimizer, made from a seed: two of them are equal.
template <class Model>
struct Training {
  explicit Training(auto options, double rate = 0.01) : model(options), sgd({.learning_rate = rate}) {}

  auto step() {
    return [this](const Tensor& x, const Tensor& labels) {
      GradientTape tape;
      const Tensor loss = reduce_mean(sparse_softmax_cross_entropy(labels, model(x)));
      const auto variables = model.trainable_variables();
      const auto gradients = tape.gradient(loss, variables);
      std::vector<Tensor> all{loss};
      for (const auto& gradient : gradients) all.push_back(gradient.dense());
      sgd.apply(gradients, variables);
      return all;
    };
  }

  Model model;
  optim::SGD sgd;
};

// Budgets from all to nothing in steps: every plan keeps to its budget, peaks fall with budgets, recomputation changes
// no bit, a cut batch only roundings.
template <class Model>
void walk_down(auto options, const Tensor& x, const Tensor& labels, int expected_feasible) {
  random::set_seed(7);
  Training<Model> training(options, 0.0);
  const auto free = function(training.step(), {.name = "free"});
  const auto want = free(x, labels);
  const auto& plan = free.plan(x, labels);
  const std::int64_t fixed = plan.state().compiled.state_bytes + plan.state().compiled.result_bytes;
  const std::int64_t rest = plan.peak_bytes() - fixed;
  std::int64_t last = plan.peak_bytes();
  int feasible = 0;
  for (int tenth = 10; tenth > 0; --tenth) {
    const std::int64_t budget = fixed + rest * tenth / 10;
    const auto step = function(training.step(), {.name = "bounded", .memory_budget = budget});
    try {
      step.plan(x, labels);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted) << error.what();
      EXPECT_NE(std::string(error.what()).find("smallest feasible budget"), std::string::npos) << error.what();
      break;
    }
    ++feasible;
    const auto got = step(x, labels);
    const auto& bounded = step.plan(x, labels);
    EXPECT_LE(bounded.peak_bytes(), budget);
    EXPECT_LE(bounded.peak_bytes(), last);
    EXPECT_EQ(step.stats().measured_peak_bytes, bounded.peak_bytes());
    last = bounded.peak_bytes();
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (bounded.micro_batches() == 1)
        EXPECT_TRUE(same_bits(got[i], want[i])) << tenth << " tenths, result " << i;
      else
        EXPECT_TRUE(near(got[i], want[i], 1e-5)) << tenth << " tenths, result " << i;
    }
  }
  EXPECT_GE(feasible, expected_feasible);
}

TEST(Budget, mlp_keeps_to_it) {
  walk_down<models::Mlp>(models::MlpOptions{.hidden = {64, 64, 64}, .outputs = 10},
                         random::normal({1000, 32}, {.seed = 3}), classes({1000}, 10), 7);
}

TEST(Budget, cnn_keeps_to_it) {
  walk_down<models::Cnn>(models::CnnOptions{.filters = {8, 16}, .hidden = 32, .classes = 10},
                         random::normal({13, 20, 20, 1}, {.seed = 3}), classes({13}, 10), 6);
}

TEST(Budget, gpt_keeps_to_it) {
  walk_down<models::Gpt>(models::GptOptions{.vocabulary = 31, .context = 32, .layers = 4, .heads = 2, .width = 32},
                         classes({6, 32}, 31), classes({6, 32}, 31), 6);
}

TEST(Budget, lstm_keeps_to_it) {
  walk_down<models::LstmClassifier>(models::LstmClassifierOptions{.units = 16, .classes = 10},
                                    random::normal({10, 12, 8}, {.seed = 3}), classes({10}, 10), 3);
}

// A table that is looked up and that makes the logits too: the lookup's gradient goes into the head's.
TEST(Budget, a_tied_table_has_one_gradient) {
  const Variable table(random::normal({4000, 16}, {.stddev = 0.1}), {.name = "table"});
  const auto step = [=](const Tensor& ids, const Tensor& next) {
    GradientTape tape;
    Tensor loss = reduce_mean(
        sparse_softmax_cross_entropy(next, matmul(embedding_lookup(table, ids), table, {.transpose_b = true})));
    Variable(table).assign_sub(tape.gradient(loss, table) * 0.1f);
    return loss;
  };
  const Tensor few = classes({4}, 4000), many = classes({256}, 4000);
  const auto compiled = function(step, {.check_against_eager = true});
  compiled(few, few);
  const std::int64_t bytes = table.spec().bytes(), logits = 256 * 4000 * 4;
  EXPECT_LT(compiled.plan(few, few).peak_bytes(), 5 * bytes / 2);
  const auto cut = function(step, {.memory_budget = 4 * bytes + logits / 2, .check_against_eager = true});
  cut(many, many);
  EXPECT_GT(cut.plan(many, many).micro_batches(), 1);
}

TEST(Budget, batch_norm_in_training_is_named_as_the_obstacle) {
  const auto training = nn::training(true);
  random::set_seed(7);
  Training<models::SeparableCnn> net(models::SeparableCnnOptions{.stem = 8, .blocks = {8, 16}});
  const Tensor x = random::normal({8, 16, 16, 3}, {.seed = 3}), labels = classes({8}, 10);
  const auto step = function(net.step(), {.name = "small", .memory_budget = KiB(200)});
  try {
    step.plan(x, labels);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    for (const char* word : {"[plan]", "small", "batch_norm", "mixes examples", "largest:"})
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << " in: " << error.what();
  }
}

TEST(Budget, masks_and_weights_divide_by_the_whole_batch) {
  const Tensor x = random::normal({100, 4}, {.seed = 1}), y = random::normal({100, 3}, {.seed = 2});
  const Tensor mask = random::bernoulli({100}, {.probability = 0.7, .seed = 3});
  Variable w(random::normal({4, 3}, {.seed = 4}), {.name = "w"});
  const auto body = [&](const Tensor& a, const Tensor& b, const Tensor& m) {
    GradientTape tape;
    const Tensor each = reduce_mean(square(tanh(matmul(a, w)) - b), {.axes = {1}});
    const Tensor loss = reduce_sum(each * m) / reduce_sum(m);
    return std::vector{loss, tape.gradient(loss, w)};
  };
  const auto free = function(body);
  const auto want = free(x, y, mask);
  const auto& plan = free.plan(x, y, mask);
  const auto fixed = plan.state().compiled.state_bytes + plan.state().compiled.result_bytes;
  const auto bounded = function(body, {.memory_budget = fixed + (plan.peak_bytes() - fixed) / 2});
  const auto got = bounded(x, y, mask);
  EXPECT_GT(bounded.plan(x, y, mask).micro_batches(), 1);
  EXPECT_TRUE(near(got[0], want[0], 1e-5));
  EXPECT_TRUE(near(got[1], want[1], 1e-5));
}

// Whether the labels are 0 and 1 follows from all of them.
TEST(Budget, hinge_loss_is_cut_too) {
  const Variable w(random::normal({16, 8}, {.seed = 4}), {.name = "w"});
  const auto make = [&](std::int64_t budget) {
    return function(
        [=](const Tensor& x, const Tensor& y) {
          GradientTape tape;
          const Tensor loss = losses::hinge(y, tanh(matmul(x, w)));
          return std::pair(loss, Tensor(tape.gradient(loss, w)));
        },
        {.memory_budget = budget});
  };
  const Tensor x = random::normal({1000, 16}, {.seed = 1}), random = random::normal({1000, 8}, {.seed = 2});
  const Tensor bits = cast(random > 0, f32), signs = sign(random);
  const std::int64_t budget = make(0).plan(x, bits).peak_bytes() / 4;
  for (const auto& y : {bits, signs, bits + signs}) {
    const auto bounded = make(budget);
    const auto [loss, gradient] = bounded(x, y);
    const auto [expected_loss, expected_gradient] = make(0)(x, y);
    EXPECT_GT(bounded.plan(x, y).micro_batches(), 1);
    EXPECT_TRUE(near(loss, expected_loss, 1e-5));
    EXPECT_TRUE(near(gradient, expected_gradient, 1e-5));
  }
}

TEST(Budget, dropout_is_the_same_in_every_plan) {
  const Tensor x = random::normal({64, 30}, {.seed = 1});
  Variable w(random::normal({30, 30}, {.seed = 4}), {.name = "w"});
  const auto body = [&](const Tensor& a) {
    GradientTape tape;
    Tensor h = a;
    for (int i = 0; i < 4; ++i) h = dropout(tanh(matmul(h, w)), 0.5);
    return tape.gradient(reduce_sum(h), w);
  };
  random::set_seed(1);
  const auto free = function(body);
  const auto want = free(x);
  const auto& plan = free.plan(x);
  const auto fixed = plan.state().compiled.state_bytes + plan.state().compiled.result_bytes;
  for (int tenth : {8, 6}) {
    random::set_seed(1);
    const auto bounded = function(body, {.memory_budget = fixed + (plan.peak_bytes() - fixed) * tenth / 10});
    EXPECT_TRUE(near(bounded(x), want, 1e-5)) << tenth;
  }
}

// The weights of an example are 162: a part begins anywhere in a block of random words.
TEST(Budget, dropout_of_attention_is_the_same_in_parts) {
  constexpr std::int64_t examples = 32, time = 9, heads = 2, size = 8, width = heads * size;
  const Tensor x = random::normal({examples, time, width}, {.seed = 1});
  Variable w(random::normal({width, 3 * width}, {.seed = 4}), {.name = "w"});
  const auto body = [&](const Tensor& a) {
    GradientTape tape;
    const auto qkv = unstack(transpose(reshape(matmul(a, w), {a.shape()[0], time, 3, heads, size}), {2, 0, 3, 1, 4}));
    return tape.gradient(reduce_sum(square(attention(qkv[0], qkv[1], qkv[2], {.causal = true, .dropout = 0.3}))), w);
  };
  random::set_seed(1);
  const auto free = function(body, {.check_against_eager = true});
  const auto want = free(x);
  const auto& plan = free.plan(x);
  const auto fixed = plan.state().compiled.state_bytes + plan.state().compiled.result_bytes;
  random::set_seed(1);
  const auto bounded = function(body, {.memory_budget = fixed + (plan.peak_bytes() - fixed) / 2});
  EXPECT_TRUE(near(bounded(x), want, 1e-5));
  EXPECT_GT(bounded.plan(x).micro_batches(), 1);
}

// Seconds of the processor until it is clear that no plan of a chain of so many layers fits.
double seconds_to_refuse(int layers) {
  std::vector<Variable> weights;
  optim::Adam adam;
  for (int i = 0; i < layers; ++i) weights.emplace_back(ones({2, 2}) * 0.1f);
  const auto step = [&](const Tensor& x) {
    GradientTape tape;
    Tensor y = x;
    for (const auto& weight : weights) y = tanh(matmul(y, weight));
    const Tensor loss = reduce_sum(y);
    adam.apply(tape.gradient(loss, weights), weights);
    return loss;
  };
  const auto small = function(step, {.memory_budget = layers * 4 * 64});
  const std::clock_t start = std::clock();
  EXPECT_THROW(small.plan(Spec{f32, {8, 2}}), InfeasibleBudget);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// A recurrence unrolled by hand: every turn makes a part of the gradient, which is added where the sum stands.
TEST(Budget, a_weight_with_many_uses_has_one_sum_of_gradients) {
  constexpr std::int64_t side = 512, uses = 32, examples = 64, weights = side * side * 4;
  Variable w(random::normal({side, side}, {.stddev = 0.03, .seed = 3}), {.name = "w"});
  const auto make = [&](std::int64_t budget) {
    return function(
        [&](const Tensor& x) {
          GradientTape tape;
          Tensor h = x;
          for (int i = 0; i < uses; ++i) h = tanh(matmul(h, w));
          return Tensor(tape.gradient(reduce_mean(square(h)), w));
        },
        {.memory_budget = budget});
  };
  const Tensor x = random::normal({examples, side}, {.seed = 5});
  const auto step = make(0);
  const auto& compiled = step.plan(x).state().compiled;
  const std::int64_t activations = (uses + 8) * examples * side * 4;
  EXPECT_LT(compiled.executable->workspace(), activations + 3 * weights);
  const Tensor gradient = step(x);
  EXPECT_EQ(step.stats().measured_peak_bytes, step.plan(x).peak_bytes());

  GradientTape tape;
  Tensor h = x;
  for (int i = 0; i < uses; ++i) h = tanh(matmul(h, w));
  EXPECT_TRUE(same_bits(gradient, Tensor(tape.gradient(reduce_mean(square(h)), w))));

  const Tensor many = random::normal({1024, side}, {.seed = 6});
  const auto in_parts = make(8 * weights);
  EXPECT_TRUE(near(in_parts(many), step(many), 1e-5));
  EXPECT_GT(in_parts.plan(many).micro_batches(), 1);
}

TEST(Budget, a_layer_with_many_uses_has_one_sum_of_gradients) {
  nn::Sequential shared({nn::dense(384, relu)});
  shared(ones({1, 384}));
  optim::SGD sgd({.learning_rate = 0.01});
  const auto step = function([&](const Tensor& x) {
    GradientTape tape;
    Tensor h = x;
    for (int i = 0; i < 24; ++i) h = h + shared(h);
    const Tensor loss = reduce_mean(square(h));
    sgd.apply(tape.gradient(loss, shared.trainable_variables()), shared.trainable_variables());
    return loss;
  });
  const std::int64_t activations = (2 * 24 + 8) * 32 * 384 * 4;
  EXPECT_LT(step.plan(Spec{f32, {32, 384}}).state().compiled.executable->workspace(), activations + 3 * 384 * 384 * 4);
}

TEST(Budget, of_a_deep_model_is_refused_in_time) {
  seconds_to_refuse(100);
  const double few = seconds_to_refuse(150), many = seconds_to_refuse(1200);
  EXPECT_LT(many, 20 * few + 0.25) << few << "; 64 times that if every node looks at all others";
}

// Plans of one function run in the same memory: what is there for a larger one is not what a smaller one needs, and
// where there is a budget it goes before a plan exceeds it.
TEST(Budget, of_a_small_plan_after_a_large_one_is_measured_to_the_byte) {
  const auto held = [] {
    for (const auto& owner : config::memory_info().owners)
      if (owner.name == "arena") return owner.bytes;
    return std::int64_t{0};
  };
  const std::int64_t before = held();
  for (const std::int64_t budget : {std::int64_t{0}, KiB(600)}) {
    const auto f = function(
        [](const Tensor& x) {  // tall matrices take an arena, wide ones a result as large as that
          const Tensor y = cumsum(exp(x), {.axis = 0}) * reverse(x, 0);
          return x.shape()[0] > x.shape()[1] ? reduce_sum(y) : y;
        },
        {.memory_budget = budget});
    const Tensor large = ones({2000, 20}), small = ones({300, 20}), wide = ones({20, 2000});
    for (const auto& x : {large, small, wide, large, wide, small}) {
      f(x);
      EXPECT_EQ(f.stats().measured_peak_bytes, f.plan(x).peak_bytes()) << x.shape();
      const auto& plan = f.plan(x).state().compiled;
      const std::int64_t most = budget > 0 ? budget : MiB(1);
      EXPECT_LE(plan.state_bytes + plan.result_bytes + held() - before, most) << x.shape();
    }
    EXPECT_LT(f.plan(small).peak_bytes(), f.plan(large).peak_bytes() / 4);
    EXPECT_GT(f.plan(large).peak_bytes() + f.plan(wide).state().compiled.result_bytes, KiB(600));
  }
}

// Results that are views, arguments or each other are copied at the end of a plan, which recomputation looks at too.
TEST(Budget, of_results_that_are_copied_is_kept) {
  Variable w(random::normal({64, 64}, {.stddev = 0.1, .seed = 1}), {.name = "w"});
  const auto f = [&](const Tensor& x) {
    GradientTape tape;
    Tensor h = x;
    for (int i = 0; i < 6; ++i) h = tanh(matmul(h, w));
    const Tensor gradient = tape.gradient(reduce_sum(h * h), w);
    std::vector<Tensor> all{gradient, reshape(gradient, {4096}), x};
    for (int i = 0; i < 300; ++i) all.push_back(slice(gradient, {i % 64, 0}, {1, -1}));
    return all;
  };
  const Tensor x = random::normal({512, 64}, {.seed = 2});
  const auto free = function(f);
  const auto want = free(x);
  const auto& whole = free.plan(x);
  const std::int64_t fixed = whole.state().compiled.state_bytes + whole.state().compiled.result_bytes;
  const auto bounded = function(f, {.memory_budget = fixed + (whole.peak_bytes() - fixed) * 6 / 10});
  const auto got = bounded(x);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(near(got[i], want[i], 1e-5)) << i;
}

TEST(Budget, of_several_signatures_is_kept_by_each) {
  const auto f = function(
      [](const Tensor& x) {  // a vector takes an arena, a matrix a result
        return x.rank() == 1 ? reduce_sum(cumsum(exp(x)) * sin(reverse(x, 0)), {.keepdims = true}) : x * 2;
      },
      {.memory_budget = KiB(900)});
  const Tensor vector = ones({100000}), matrix = ones({2, 100000});
  for (const auto& x : {vector, matrix, vector}) {
    f(x);
    EXPECT_EQ(f.stats().measured_peak_bytes, f.plan(x).peak_bytes());
  }
  EXPECT_GT(f.plan(vector).peak_bytes() + f.plan(matrix).peak_bytes(), KiB(1300));
}

// Two batches behind each other are cut apart where the first ends: what a smaller one would be cannot be told.
TEST(Budget, says_nothing_of_other_batches_where_their_steps_are_not_known) {
  Variable w(random::normal({16, 8}, {.seed = 1}));
  const auto body = [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = reduce_mean(square(concat({y, matmul(tanh(x), w)}, 0)));
    w.assign_sub(tape.gradient(loss, w));
    return loss;
  };
  const auto small = function(body, {.memory_budget = KiB(64)});
  EXPECT_LE(small.plan(Spec{f32, {100, 16}}, Spec{f32, {100, 8}}).peak_bytes(), KiB(64));
  try {
    small.plan(Spec{f32, {1000, 16}}, Spec{f32, {1000, 8}});
    ADD_FAILURE() << "expected an error";
  } catch (const InfeasibleBudget& none) {
    EXPECT_FALSE(none.answer().largest_batch.has_value());
    EXPECT_EQ(std::string(none.what()).find("not even one example"), std::string::npos) << none.what();
  }
}

}  // namespace
}  // namespace thalweg
