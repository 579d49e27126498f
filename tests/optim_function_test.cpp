// Optimizers inside a compiled function do what they do in eager mode; nothing is burned in.
#include <gtest/gtest.h>

#include <memory>

#include "thalweg/autodiff/tape.h"
#include "thalweg/losses/losses.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/plan/function.h"

namespace thalweg {
namespace {

using namespace optim;
using Make = std::function<std::unique_ptr<Optimizer>()>;

template <class Optimizer, class Options>
Make made(const Options& options) {
  return [options] { return std::make_unique<Optimizer>(options); };
}

// A table of 30 rows whose looked-up rows go through a matrix.
struct Model {
  Variable table{random::normal({30, 4}, {.seed = 1}), {.name = "embedding"}};
  Variable kernel{random::normal({4, 3}, {.seed = 2}), {.name = "kernel"}};
  std::vector<Variable> variables() const { return {table, kernel}; }
  Tensor operator()(const Tensor& ids) const { return matmul(embedding_lookup(table, ids), kernel); }
};

struct Run {
  explicit Run(const Make& make) : optimizer(make()) {}
  std::pair<Tensor, Tensor> step(const Tensor& ids, const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = losses::sparse_categorical_crossentropy(labels, model(ids), {.from_logits = true});
    const Applied applied = optimizer->apply(tape.gradient(loss, model.variables()), model.variables());
    return {loss, applied.tensor()};
  }
  Model model;
  std::unique_ptr<Optimizer> optimizer;
};

void expect_equal_state(const Run& eager, const Run& compiled) {
  const auto compare = [](const Variable& want, const Variable& got) {
    EXPECT_EQ(want.name(), got.name());
    if (is_float(want.dtype())) {
      const auto a = want.value().to_vector<double>(), b = got.value().to_vector<double>();
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << want.name() << ", element " << i;
    } else {
      EXPECT_EQ(want.value().to_vector<std::int64_t>(), got.value().to_vector<std::int64_t>()) << want.name();
    }
  };
  for (std::size_t i = 0; i < 2; ++i) compare(eager.model.variables()[i], compiled.model.variables()[i]);
  const auto want = eager.optimizer->variables(), got = compiled.optimizer->variables();
  ASSERT_EQ(want.size(), got.size());
  for (std::size_t i = 0; i < want.size(); ++i) compare(want[i], got[i]);
}

void expect_same_compiled(const char* what, const Make& make) {
  SCOPED_TRACE(what);
  Run eager(make), compiled(make);
  const auto step = function([&](const Tensor& ids, const Tensor& labels) { return compiled.step(ids, labels); });
  for (int i = 0; i < 5; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    const Tensor ids = random::uniform({8}, {.low = 0, .high = 30, .seed = 10 + seed, .dtype = i32});
    const Tensor labels = random::uniform({8}, {.low = 0, .high = 3, .seed = 20 + seed, .dtype = i32});
    const auto [want, was_applied] = eager.step(ids, labels);
    const auto [got, is_applied] = step(ids, labels);
    EXPECT_NEAR(got.item<float>(), want.item<float>(), 1e-6);
    EXPECT_EQ(is_applied.item<bool>(), was_applied.item<bool>());
  }
  expect_equal_state(eager, compiled);
}

TEST(optim_function, rules_run_compiled_as_in_eager_mode) {
  expect_same_compiled("sgd", made<SGD>(SGDOptions{.momentum = 0.9, .nesterov = true, .clip_norm = 0.1}));
  expect_same_compiled("rmsprop", made<RMSprop>(RMSpropOptions{.momentum = 0.5, .centered = true, .clip_value = 0.1}));
  expect_same_compiled("adam", made<Adam>(AdamOptions{.amsgrad = true, .global_clip_norm = 0.1, .weight_decay = 0.1}));
  expect_same_compiled("lazy adam", made<Adam>(AdamOptions{.sparse = lazy}));
  expect_same_compiled("lazy adam with averages", made<Adam>(AdamOptions{.ema_momentum = 0.9, .sparse = lazy}));
  expect_same_compiled("nadam", made<Nadam>(NadamOptions{.ema_momentum = 0.9}));
  expect_same_compiled("adamax", made<Adamax>(AdamaxOptions{}));
  expect_same_compiled("adagrad", made<Adagrad>(AdagradOptions{}));
  expect_same_compiled("adadelta", made<Adadelta>(AdadeltaOptions{}));
  expect_same_compiled("ftrl", made<Ftrl>(FtrlOptions{}));
  expect_same_compiled("lamb", made<Lamb>(LambOptions{.ema_momentum = 0.9}));
  expect_same_compiled("adafactor", made<Adafactor>(AdafactorOptions{}));
  expect_same_compiled("muon", made<Muon>(MuonOptions{}));
}

TEST(optim_function, accumulation_is_predicated) {
  expect_same_compiled("adam", made<Adam>(AdamOptions{.ema_momentum = 0.9, .accumulate_steps = 2}));
  expect_same_compiled("lazy adam",
                       made<Adam>(AdamOptions{.ema_momentum = 0.9, .accumulate_steps = 2, .sparse = lazy}));
  expect_same_compiled("nadam", made<Nadam>(NadamOptions{.accumulate_steps = 2}));
  expect_same_compiled("lamb", made<Lamb>(LambOptions{.weight_decay = 0.1, .accumulate_steps = 3}));
}

// The longest program of any rule, on a number: there is no code for it, so that it is interpreted.
TEST(optim_function, ftrl_takes_all_options_at_once) {
  const FtrlOptions options{.learning_rate = 0.1,
                            .learning_rate_power = -0.4,
                            .l1_regularization_strength = 0.05,
                            .l2_regularization_strength = 0.02,
                            .l2_shrinkage_regularization_strength = 0.01,
                            .beta = 0.3,
                            .clip_value = 0.7,
                            .weight_decay = 0.1,
                            .ema_momentum = 0.9,
                            .accumulate_steps = 2};
  Ftrl eager(options), compiled(options);
  Variable want(scalar(1, f64), {.name = "w"}), got(scalar(1, f64), {.name = "w"});
  const auto step = function([&](const Tensor& g) { return compiled.apply({g}, {got}).tensor(); });
  for (const double g : {0.5, 0.3, 2.0, -0.1}) {
    eager.apply({scalar(g, f64)}, {want});
    step(scalar(g, f64));
  }
  EXPECT_NEAR(got.value().item<double>(), want.value().item<double>(), 1e-12);
  EXPECT_EQ(compiled.iterations(), 2);
}

// A function does not know yet that gradients come, and is traced anew when they have.
TEST(optim_function, what_was_traced_before_the_first_gradient_takes_part) {
  SGD sgd({.learning_rate = 1, .accumulate_steps = 2});
  Variable always(scalar(0, f64), {.name = "always"}), branch(scalar(0, f64), {.name = "branch"});
  const auto with = function([&](const Tensor& g) { return sgd.apply({g, g}, {always, branch}).tensor(); });
  const auto without = function([&](const Tensor& g) { return sgd.apply({g, Gradient()}, {always, branch}).tensor(); });
  const auto flush = function([&] { return sgd.flush().tensor(); });
  const Tensor one = scalar(1, f64);
  EXPECT_FALSE(flush().item<bool>());
  without(one), with(one);
  EXPECT_EQ(branch.value().item<double>(), -0.5);
  with(one), without(one);
  EXPECT_EQ(branch.value().item<double>(), -1);
  with(one);
  EXPECT_TRUE(flush().item<bool>());
  EXPECT_EQ(always.value().item<double>(), -3);
  EXPECT_EQ(branch.value().item<double>(), -2);
  EXPECT_EQ(sgd.iterations(), 3);
}

TEST(optim_function, whether_an_update_was_made_is_never_known_in_a_trace) {
  SGD sgd;
  Variable w(scalar(1.f, f32), {.name = "w"});
  const auto step = function([&](const Tensor& g) {
    const Applied applied = sgd.apply({g}, {w});
    EXPECT_THROW(static_cast<void>(static_cast<bool>(applied)), Error);
    return applied.tensor();
  });
  EXPECT_TRUE(step(scalar(1.f, f32)).item<bool>());
}

TEST(optim_function, rates_change_between_calls) {
  expect_same_compiled("schedule", made<SGD>(SGDOptions{.learning_rate = schedules::cosine(0.1, 4, 0.1, 0.2, 2)}));
  expect_same_compiled("host",
                       made<SGD>(SGDOptions{.learning_rate = [](std::int64_t n) { return 1.0 / (2.0 + double(n)); }}));

  SGD sgd({.learning_rate = 1});
  Variable w(scalar(0.f, f32), {.name = "w"});
  const auto step = function([&](const Tensor& g) {
    sgd.apply({g}, {w});
    return w.value();
  });
  step(scalar(1.f, f32));
  sgd.set_learning_rate(0.5);
  EXPECT_EQ(step(scalar(1.f, f32)).item<float>(), -1.5f);
  EXPECT_EQ(sgd.iterations(), 2);
}

}  // namespace
}  // namespace thalweg
