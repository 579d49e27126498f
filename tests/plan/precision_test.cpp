// Steps in 16 bits: what is promised of their memory, results, files and errors.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "models/models.h"
#include "models/steps.h"
#include "tests/support/values.h"
#include "thalweg/backend/cpu/product_speed.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/plan/precision.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::same_bits;

constexpr Precision narrow_ones[] = {Precision::bf16, Precision::f16};

// The plan for such a step, whatever the processor is good at.
Compiled planned(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& run,
                 const std::vector<Spec>& arguments, Precision precision, std::int64_t budget = 0) {
  const auto step = function(run, {.name = "step"});
  Graph graph = step.plan(arguments).state().traced;
  graph.precision = precision;
  return compile(graph, {.memory_budget = budget});
}

std::int64_t arena_of(const std::string& model, Precision precision) {
  random::set_seed(1);
  const models::TrainingStep step = models::make_step(model);
  const auto run = [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{step.run(x)}; };
  return planned(run, step.arguments, precision).memory.arena_bytes;
}

TEST(Precision, activations_take_about_half_the_bytes) {
  const auto full = static_cast<double>(arena_of("gpt", Precision::f32));
  for (Precision precision : narrow_ones)
    EXPECT_LE(static_cast<double>(arena_of("gpt", precision)), 0.6 * full) << name_of(dtype_of(precision));
  EXPECT_LE(static_cast<double>(arena_of("cnn", Precision::bf16)),
            0.6 * static_cast<double>(arena_of("cnn", Precision::f32)));
}

// A small gpt on a small text, made from a seed: two of them are equal.
struct Writing {
  Writing() : model({.vocabulary = 32, .context = 32, .layers = 2, .heads = 2, .width = 64, .dropout = 0.1}) {
    model(zeros({1, 32}, i64));  // makes the variables
  }

  std::vector<Tensor> operator()(const std::vector<Tensor>& batch) {
    const auto training = nn::training(true);
    GradientTape tape;
    const Tensor loss = reduce_mean(sparse_softmax_cross_entropy(batch[1], model(batch[0])));
    const auto variables = model.trainable_variables();
    const auto gradients = tape.gradient(loss, variables);
    adam.apply(gradients, variables);
    std::vector<Tensor> all{loss};
    for (const auto& gradient : gradients) all.push_back(gradient.dense());
    return all;
  }

  models::Gpt model;
  optim::Adam adam{{.learning_rate = 3e-3, .global_clip_norm = 1.0}};
};

// Windows of a periodic text that no window shows whole: rules, not noise.
std::vector<Tensor> text_batch(int number, int examples = 4) {
  std::vector<std::int64_t> ids, next;
  for (int example = 0; example < examples; ++example)
    for (int i = 0; i < 32; ++i) {
      const int at = 97 * number + 41 * example + i;
      const auto letter = [](int n) { return static_cast<std::int64_t>((n * n / 7 + n % 5) % 32); };
      ids.push_back(letter(at)), next.push_back(letter(at + 1));
    }
  return {Tensor::from(ids, {examples, 32}), Tensor::from(next, {examples, 32})};
}

double loss_after(Precision precision, int steps) {
  random::set_seed(5);
  Writing writing;
  const auto step =
      function([&](const std::vector<Tensor>& x) { return writing(x)[0]; }, {.name = "write", .precision = precision});
  double last = 0;
  for (int i = 0; i < steps; ++i) {
    const double loss = step(text_batch(i)).item<double>();
    if (i >= steps - 10) last += loss / 10;
  }
  return last;
}

TEST(Precision, learns_as_in_f32) {
  const double full = loss_after(Precision::f32, 200);
  EXPECT_LT(full, 3.0);  // it has learned something: 3.47 is a guess
  for (Precision precision : narrow_ones)
    EXPECT_NEAR(loss_after(precision, 200), full, 0.02 * full) << name_of(dtype_of(precision));
}

TEST(Precision, results_and_variables_keep_their_dtypes) {
  random::set_seed(5);
  Writing writing;
  const auto step = function([&](const std::vector<Tensor>& x) { return writing(x); }, {.precision = Precision::f16});
  for (const auto& result : step(text_batch(0))) EXPECT_EQ(result.dtype(), f32);
  for (const auto& variable : writing.model.trainable_variables()) EXPECT_EQ(variable.dtype(), f32);
  const std::string plan = step.plan(text_batch(0)).dump("precision");
  for (const std::string line : {"f16 [128, 64]", "wide_result = 1", "f32 [4, 32, 2] = sparse_softmax_cross_entropy "})
    EXPECT_NE(plan.find(line), std::string::npos) << line;
}

TEST(Precision, budgets_are_kept_and_recomputation_changes_no_bit) {
  for (Precision precision : narrow_ones) {
    random::set_seed(5);
    Writing writing;
    const auto frozen = [&](const std::vector<Tensor>& x) {
      GradientTape tape;
      const Tensor loss = reduce_mean(sparse_softmax_cross_entropy(x[1], writing.model(x[0])));
      std::vector<Tensor> all{loss};
      for (const auto& gradient : tape.gradient(loss, writing.model.trainable_variables()))
        all.push_back(gradient.dense());
      return all;
    };
    const auto batch = text_batch(1, 16);
    const auto free = function(frozen, {.name = "free", .precision = precision});
    const auto want = free(batch);
    const auto& plan = free.plan(batch);
    EXPECT_EQ(free.stats().measured_peak_bytes, plan.peak_bytes());
    const auto& compiled = plan.state().compiled;
    const std::int64_t fixed = compiled.state_bytes + compiled.result_bytes, rest = plan.peak_bytes() - fixed;
    int recomputing = 0, splitting = 0;
    for (int percent : {95, 90, 85, 80, 75, 70, 60, 50, 40, 30}) {
      const std::int64_t budget = fixed + rest * percent / 100;
      const auto step = function(frozen, {.name = "bounded", .memory_budget = budget, .precision = precision});
      try {
        step.plan(batch);
      } catch (const InfeasibleBudget&) {
        break;
      }
      const auto got = step(batch);
      const auto& bounded = step.plan(batch);
      EXPECT_LE(bounded.peak_bytes(), budget);
      EXPECT_EQ(step.stats().measured_peak_bytes, bounded.peak_bytes());
      const bool split = bounded.micro_batches() > 1;
      ++(split ? splitting : recomputing);
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_TRUE(split ? testing::near(got[i], want[i], 2e-2) : same_bits(got[i], want[i])) << percent << ' ' << i;
    }
    EXPECT_GT(recomputing, 0);
    EXPECT_GT(splitting, 0);
  }
}

TEST(Precision, has_the_same_bits_for_any_number_of_threads) {
  const int before = config::threads();
  for (Precision precision : narrow_ones) {
    std::vector<Tensor> first;
    for (int threads : {1, 2, 4}) {
      config::set_threads(threads);
      random::set_seed(5);
      Writing writing;
      const auto step = function([&](const std::vector<Tensor>& x) { return writing(x); }, {.precision = precision});
      const auto results = step(text_batch(2));
      if (first.empty()) first = results;
      for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(results[i], first[i])) << threads;
    }
  }
  config::set_threads(before);
}

TEST(Precision, is_compared_with_eager_as_16_bits_allow) {
  for (Precision precision : narrow_ones) {
    random::set_seed(5);
    Writing writing;
    const auto step = function([&](const std::vector<Tensor>& x) { return writing(x)[0]; },
                               {.precision = precision, .check_against_eager = true});
    EXPECT_NO_THROW(step(text_batch(3)));
  }
  const Tensor x = random::normal({128, 128}), w = random::normal({128, 128});
  int calls = 0;
  const auto lies = function([&](const Tensor& y) { return matmul(y, w) * (++calls > 1 ? 2.f : 1.f); },
                             {.precision = Precision::bf16, .check_against_eager = true});
  EXPECT_THROW(lies(x), Error);
}

// Two products with a loss that is so small that its gradients vanish in f16.
struct Tiny {
  Tiny() {
    random::set_seed(3);
    first = Variable(random::normal({128, 128}) * 0.1f, {.name = "first"});
    second = Variable(random::normal({128, 128}) * 0.1f, {.name = "second"});
  }
  auto step(LossScale* scale, float factor) {
    return function(
        [this, scale, factor](const Tensor& x) {
          GradientTape tape;
          const Tensor loss = reduce_mean(square(matmul(tanh(matmul(x, first)), second))) * factor;
          const auto gradients = tape.gradient(scale ? scale->scale(loss) : loss, std::vector{first, second});
          sgd.apply(gradients, {first, second}, {.loss_scale = scale});
          return gradients[0].dense();
        },
        {.name = "tiny", .precision = Precision::f16});
  }
  Variable first, second;
  optim::SGD sgd{{.learning_rate = 1}};
};

TEST(Precision, loss_scale_keeps_gradients_of_f16_from_vanishing) {
  const Tensor x = random::normal({256, 128}, {.seed = 9});
  const auto share_of_zeros = [](const Tensor& g) { return reduce_mean(cast(g == 0, f32)).item<double>(); };
  Tiny plain, scaled;
  LossScale scale;
  EXPECT_GT(share_of_zeros(plain.step(nullptr, 1e-4f)(x)), 0.5);
  const Tensor before = scaled.first.value();
  EXPECT_LT(share_of_zeros(scaled.step(&scale, 1e-4f)(x)), 0.01);
  EXPECT_EQ(scale.skipped(), 0);
  EXPECT_GT(norm(scaled.first.value() - before).item<double>(), 0);
}

TEST(Precision, overflow_of_f16_is_skipped_and_the_variable_named) {
  const Tensor x = random::normal({256, 128}, {.seed = 9});
  Tiny tiny;
  LossScale scale({.initial = 1e9, .max_skips = 3});
  const auto step = tiny.step(&scale, 1e9f);
  const Tensor before = tiny.first.value();
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_EQ(scale.skipped(), 3);
  EXPECT_TRUE(same_bits(tiny.first.value(), before));
  try {
    step(x);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"first\""), std::string::npos) << error.what();
  }
}

TEST(Precision, is_kept_in_files) {
  const std::string path = ::testing::TempDir() + "precision_test_" + std::to_string(::getpid()) + ".tws";
  random::set_seed(5);
  Writing writing;
  const auto step = function([&](const std::vector<Tensor>& x) { return writing(x)[0]; },
                             {.name = "write", .precision = Precision::bf16});
  step(text_batch(0));
  step.save(path);
  const auto loaded = load_function(path);
  for (int i = 1; i < 4; ++i) {
    const Tensor want = step(text_batch(i)), got = loaded(text_batch(i));
    EXPECT_TRUE(same_bits(got, want)) << i;
  }
  std::filesystem::remove(path);
}

TEST(Precision, of_an_inner_function_is_that_of_the_outer_one) {
  const Tensor x = random::normal({128, 128});
  const auto product = [](const Tensor& y) { return matmul(y, y); };
  const auto inner = function(product, {.name = "inner", .precision = Precision::bf16});
  const auto same = function([&](const Tensor& y) { return inner(y); }, {.precision = Precision::bf16});
  EXPECT_TRUE(same_bits(same(x), inner(x)));
  const auto other = function([&](const Tensor& y) { return inner(y); }, {.name = "outer"});
  try {
    other(x);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::failed_precondition);
    EXPECT_NE(std::string(error.what()).find("\"inner\" is to be computed in bf16"), std::string::npos) << error.what();
  }
}

TEST(Precision, can_be_differentiated_from_outside) {
  const Tensor x = random::normal({128, 128}), w = random::normal({128, 128});
  const auto product = [&](const Tensor& y) { return reduce_mean(square(matmul(tanh(matmul(y, w)), w))); };
  const auto gradient = [&](auto f) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(f(x), x);
  };
  const Tensor want = gradient(product);
  const Tensor got = gradient(function(product, {.precision = Precision::f16}));
  EXPECT_EQ(got.dtype(), f32);
  const double distance = norm(got - want).item<double>(), size = norm(want).item<double>();
  EXPECT_LT(distance, 0.05 * size);
  EXPECT_GT(distance, 0);
}

TEST(Precision, small_products_stay_as_they_are) {
  const Tensor x = random::normal({8, 8});
  const auto square_of = [](const Tensor& y) { return matmul(y, y); };
  EXPECT_TRUE(same_bits(function(square_of, {.precision = Precision::bf16})(x), square_of(x)));
}

TEST(Precision, without_fast_products_is_f32) {
  using cpu::ProductSpeed;
  const ProductSpeed fast{2.0, true}, slow{0.9, true}, wrong{2.0, false};
  EXPECT_EQ(usable_precision(Precision::bf16, fast), Precision::bf16);
  EXPECT_EQ(usable_precision(Precision::bf16, slow), Precision::f32);
  EXPECT_EQ(usable_precision(Precision::bf16, wrong), Precision::f32);
  EXPECT_EQ(usable_precision(Precision::f16, fast), Precision::f16);
  EXPECT_EQ(usable_precision(Precision::f16, slow), Precision::f16);  // kept in 16 bits, computed in f32
  EXPECT_EQ(usable_precision(Precision::f16, wrong), Precision::f32);
  EXPECT_TRUE(cpu::product_speed(bf16).correct);
  EXPECT_TRUE(cpu::product_speed(f16).correct);
  EXPECT_EQ(&cpu::product_speed(bf16), &cpu::product_speed(bf16));  // found once
}

}  // namespace
}  // namespace thalweg
