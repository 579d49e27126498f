// Every update rule against its formula in plain doubles.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/optim/optimizers.h"

namespace thalweg {
namespace {

using namespace optim;
using List = std::vector<double>;

constexpr int steps = 6;
constexpr double rate = 0.05;

// One element's value and state; a formula makes the next from gradient and t = 1, 2, …
struct Element {
  double w, a = 0, b = 0, c = 0;
};
using Formula = std::function<void(Element&, double g, int t)>;

struct RuleCase {
  const char* name;
  std::function<std::unique_ptr<Optimizer>()> make;
  Formula formula;
  double initial = 0;  // of a
};

template <class Optimizer, class Options>
std::function<std::unique_ptr<optim::Optimizer>()> made(Options options) {
  options.learning_rate = rate;
  return [options] { return std::make_unique<Optimizer>(options); };
}

void adam_moments(Element& e, double g) {
  e.a = 0.9 * e.a + 0.1 * g;
  e.b = 0.99 * e.b + 0.01 * g * g;
}

void adam(Element& e, double g, int t) {
  adam_moments(e, g);
  e.w -= rate * std::sqrt(1 - std::pow(0.99, t)) / (1 - std::pow(0.9, t)) * e.a / (std::sqrt(e.b) + 1e-7);
}

void amsgrad(Element& e, double g, int t) {
  adam_moments(e, g);
  e.c = std::max(e.c, e.b);
  e.w -= rate * std::sqrt(1 - std::pow(0.99, t)) / (1 - std::pow(0.9, t)) * e.a / (std::sqrt(e.c) + 1e-7);
}

void nadam(Element& e, double g, int t) {
  const auto momentum = [](int k) { return 0.9 * (1 - 0.5 * std::pow(0.96, k)); };
  double all = 1;
  for (int k = 1; k <= t; ++k) all *= momentum(k);
  adam_moments(e, g);
  const double m = momentum(t + 1) * e.a / (1 - all * momentum(t + 1)) + (1 - momentum(t)) * g / (1 - all);
  e.w -= rate * m / (std::sqrt(e.b / (1 - std::pow(0.99, t))) + 1e-7);
}

void ftrl(Element& e, double g, int) {
  const double sum = e.a + g * g;
  e.b += g + 2 * 0.01 * e.w - (std::pow(sum, 0.4) - std::pow(e.a, 0.4)) / rate * e.w;
  const double curvature = std::pow(sum, 0.4) / rate + 2 * (0.02 + 0.1 / (2 * rate));
  e.w = (std::clamp(e.b, -0.05, 0.05) - e.b) / curvature;
  e.a = sum;
}

std::vector<RuleCase> cases() {
  return {
      {"sgd", made<SGD>(SGDOptions{}), [](Element& e, double g, int) { e.w -= rate * g; }},
      {"sgd with momentum", made<SGD>(SGDOptions{.momentum = 0.9}),
       [](Element& e, double g, int) { e.a = 0.9 * e.a - rate * g, e.w += e.a; }},
      {"nesterov", made<SGD>(SGDOptions{.momentum = 0.9, .nesterov = true}),
       [](Element& e, double g, int) { e.a = 0.9 * e.a - rate * g, e.w += 0.9 * e.a - rate * g; }},
      {"decayed sgd", made<SGD>(SGDOptions{.weight_decay = 0.1}),
       [](Element& e, double g, int) { e.w -= e.w * 0.1 * rate, e.w -= rate * g; }},
      {"bounded sgd", made<SGD>(SGDOptions{.clip_value = 0.3}),
       [](Element& e, double g, int) { e.w -= rate * std::clamp(g, -0.3, 0.3); }},
      {"rmsprop", made<RMSprop>(RMSpropOptions{.rho = 0.8}),
       [](Element& e, double g, int) { e.a = 0.8 * e.a + 0.2 * g * g, e.w -= rate * g / std::sqrt(e.a + 1e-7); }},
      {"centered rmsprop with momentum",
       made<RMSprop>(RMSpropOptions{.rho = 0.8, .momentum = 0.5, .epsilon = 1e-3, .centered = true}),
       [](Element& e, double g, int) {
         e.a = 0.8 * e.a + 0.2 * g * g, e.b = 0.8 * e.b + 0.2 * g;
         e.c = 0.5 * e.c + rate * g / std::sqrt(e.a - e.b * e.b + 1e-3);
         e.w -= e.c;
       }},
      {"adam", made<Adam>(AdamOptions{.beta_2 = 0.99}), adam},
      {"amsgrad", made<Adam>(AdamOptions{.beta_2 = 0.99, .amsgrad = true}), amsgrad},
      {"adamw", made<AdamW>(AdamWOptions{.beta_2 = 0.99}),
       [](Element& e, double g, int t) { e.w -= e.w * 0.004 * rate, adam(e, g, t); }},
      {"nadam", made<Nadam>(NadamOptions{.beta_2 = 0.99}), nadam},
      {"adamax", made<Adamax>(AdamaxOptions{.beta_2 = 0.99}),
       [](Element& e, double g, int t) {
         e.a = 0.9 * e.a + 0.1 * g, e.b = std::max(0.99 * e.b, std::abs(g));
         e.w -= rate * e.a / ((1 - std::pow(0.9, t)) * (e.b + 1e-7));
       }},
      {"adagrad", made<Adagrad>(AdagradOptions{}),
       [](Element& e, double g, int) { e.a += g * g, e.w -= rate * g / std::sqrt(e.a + 1e-7); }, 0.1},
      {"adadelta", made<Adadelta>(AdadeltaOptions{}),
       [](Element& e, double g, int) {
         e.a = 0.95 * e.a + 0.05 * g * g;
         const double change = -std::sqrt(e.b + 1e-7) / std::sqrt(e.a + 1e-7) * g;
         e.b = 0.95 * e.b + 0.05 * change * change, e.w += rate * change;
       }},
      {"lion", made<Lion>(LionOptions{}),
       [](Element& e, double g, int) {
         const double mixed = 0.9 * e.a + 0.1 * g;
         e.w -= rate * (mixed > 0 ? 1 : mixed < 0 ? -1 : 0), e.a = 0.99 * e.a + 0.01 * g;
       }},
      {"ftrl",
       made<Ftrl>(FtrlOptions{.learning_rate_power = -0.4,
                              .l1_regularization_strength = 0.05,
                              .l2_regularization_strength = 0.02,
                              .l2_shrinkage_regularization_strength = 0.01,
                              .beta = 0.1}),
       ftrl, 0.1},
  };
}

std::vector<Tensor> gradients_of(const Shape& shape) {
  std::vector<Tensor> list;
  for (int step = 0; step < steps; ++step)
    list.push_back(random::normal(shape, {.seed = static_cast<std::uint64_t>(7 + step), .dtype = f64}));
  return list;
}

void expect_near(const Tensor& got, const List& want, const std::string& what) {
  const auto values = got.to_vector<double>();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(values[i], want[i], 1e-12 * std::max(1.0, std::abs(want[i]))) << what << ", element " << i;
}

TEST(optim_rules, elementwise_rules_follow_their_formulas) {
  for (const auto& c : cases()) {
    const auto optimizer = c.make();
    Variable w(random::normal({300}, {.seed = 3, .dtype = f64}), {.name = "w"});
    std::vector<Element> elements;
    for (double value : w.value().to_vector<double>()) elements.push_back({.w = value, .a = c.initial});
    int t = 0;
    for (const Tensor& gradient : gradients_of(w.shape())) {
      ++t;
      const auto g = gradient.to_vector<double>();
      for (std::size_t i = 0; i < elements.size(); ++i) c.formula(elements[i], g[i], t);
      EXPECT_TRUE(optimizer->apply({gradient}, {w}));
    }
    List want;
    for (const auto& element : elements) want.push_back(element.w);
    expect_near(w, want, c.name);
    EXPECT_EQ(optimizer->iterations(), steps) << c.name;
  }
}

double norm(const List& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum);
}

TEST(optim_rules, lamb_scales_by_the_ratio_of_norms) {
  Lamb lamb({.learning_rate = rate, .beta_2 = 0.99});
  Variable w(random::normal({40}, {.seed = 3, .dtype = f64}), {.name = "w"});
  List value = w.value().to_vector<double>(), m(40), v(40), step(40);
  int t = 0;
  for (const Tensor& gradient : gradients_of({40})) {
    ++t;
    const auto g = gradient.to_vector<double>();
    for (std::size_t i = 0; i < 40; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i], v[i] = 0.99 * v[i] + 0.01 * g[i] * g[i];
      step[i] = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.99, t))) + 1e-7);
    }
    const double ratio = norm(value) / norm(step);
    for (std::size_t i = 0; i < 40; ++i) value[i] -= rate * ratio * step[i];
    lamb.apply({gradient}, {w});
  }
  expect_near(w, value, "lamb");
}

TEST(optim_rules, adafactor_keeps_the_second_moment_of_a_vector) {
  Adafactor adafactor({.learning_rate = rate});
  Variable w(random::normal({40}, {.seed = 3, .dtype = f64}), {.name = "w"});
  List value = w.value().to_vector<double>(), v(40), step(40);
  int t = 0;
  for (const Tensor& gradient : gradients_of({40})) {
    ++t;
    const auto g = gradient.to_vector<double>();
    const double beta = 1 - std::pow(t, -0.8), root = std::sqrt(40.0);
    for (std::size_t i = 0; i < 40; ++i) {
      v[i] = beta * v[i] + (1 - beta) * (g[i] * g[i] + 1e-30);
      step[i] = g[i] / std::sqrt(v[i]);
    }
    const double size = std::max(1e-3, norm(value) / root) * std::min(rate, 1 / std::sqrt(t));
    const double clip = std::max(1.0, norm(step) / root);
    for (std::size_t i = 0; i < 40; ++i) value[i] -= size * step[i] / clip;
    adafactor.apply({gradient}, {w});
  }
  expect_near(w, value, "adafactor");
}

// Of a unit that is never on, and an input that is always 0: the products of their moments have no place in f32.
TEST(optim_rules, adafactor_takes_rows_and_columns_without_a_gradient) {
  for (const float size : {1e-6f, 1.f, 1e6f}) {
    const std::vector<float> gradient{0.5f * size, -0.25f * size, 0, 2 * size, size, 0, 0, 0, 0};
    Adafactor adafactor({.learning_rate = rate});
    Variable w(Tensor::from(std::vector<float>(9, 1.f), {3, 3}), {.name = "w"});
    for (int i = 0; i < 3; ++i) adafactor.apply({Tensor::from(gradient, {3, 3})}, {w});
    const auto value = w.value().to_vector<float>();
    for (std::size_t i = 0; i < 9; ++i) {
      EXPECT_TRUE(std::isfinite(value[i])) << size << ' ' << i;
      EXPECT_EQ(value[i] == 1, gradient[i] == 0) << size << ' ' << i << ' ' << value[i];
    }
  }
}

// A warm-up from 0: nothing is divided by the rate then.
TEST(optim_rules, a_rate_of_zero_leaves_weights_as_they_are) {
  for (const float gradient : {0.F, 1.F}) {
    Ftrl ftrl({.learning_rate = schedules::piecewise({0}, {0, 0.1})});
    Ftrl other({.learning_rate = 0.1});
    Variable w(full({1}, 2.F), {.name = "w"}), same(full({1}, 2.F), {.name = "w"});
    ftrl.apply({full({1}, gradient)}, {w});
    EXPECT_EQ(w.value().item<float>(), 2);
    ftrl.apply({full({1}, gradient)}, {w});
    other.apply({full({1}, gradient)}, {same});
    EXPECT_EQ(w.value().item<float>(), same.value().item<float>());
  }
}

// Its variance is 0 but for rounding, which made it negative.
TEST(optim_rules, centered_rmsprop_takes_gradients_that_do_not_change) {
  std::vector<float> sizes;
  for (int i = 0; i < 1000; ++i) sizes.push_back(0.01f * std::exp(0.02f * static_cast<float>(i)));
  const Tensor gradient = Tensor::from(sizes, {1000});
  RMSprop rmsprop({.learning_rate = 1e-6, .centered = true});
  Variable w(zeros({1000}), {.name = "w"});
  for (int i = 0; i < 200; ++i) rmsprop.apply({gradient}, {w});
  EXPECT_TRUE(reduce_all(isfinite(w.value())).item<bool>());
}

TEST(optim_rules, ftrl_that_begins_with_nothing_lets_weights_without_a_gradient_rest) {
  Ftrl ftrl({.learning_rate = 0.1, .initial_accumulator_value = 0});
  Variable w(full({2}, 1.F), {.name = "w"});
  ftrl.apply({tensor({0.F, 1.F})}, {w});
  EXPECT_EQ(w.value().to_vector<float>()[0], 1);
  EXPECT_NEAR(w.value().to_vector<float>()[1], 0.9, 1e-6);
}

TEST(optim_rules, muon_moves_a_matrix_along_nearly_orthogonal_directions) {
  Muon muon({.learning_rate = 1, .ns_steps = 8, .rms_rate = 1, .weight_decay = {}});
  Variable w(random::normal({6, 3}, {.seed = 3, .dtype = f64}), {.name = "w"});
  const auto before = w.value().to_vector<double>();
  muon.apply({random::normal({6, 3}, {.seed = 4, .dtype = f64})}, {w});
  const auto after = w.value().to_vector<double>();
  // The change is sqrt(6) times a matrix whose columns have lengths near 1 and are nearly at right angles.
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      double product = 0;
      for (std::size_t row = 0; row < 6; ++row)
        product += (after[row * 3 + i] - before[row * 3 + i]) * (after[row * 3 + j] - before[row * 3 + j]) / 6;
      EXPECT_NEAR(product, i == j ? 1 : 0, 0.45);
    }
}

TEST(optim_rules, rules_keep_the_dtype_of_the_variable) {
  for (const auto& c : cases()) {
    const auto optimizer = c.make();
    Variable w(random::normal({5}, {.dtype = bf16}), {.name = "w"});
    optimizer->apply({random::normal({5})}, {w});
    EXPECT_EQ(w.value().dtype(), bf16) << c.name;
  }
  Lamb lamb;
  Variable w(random::normal({5}, {.dtype = bf16}), {.name = "w"});
  EXPECT_TRUE(lamb.apply({random::normal({5})}, {w}));
}

}  // namespace
}  // namespace thalweg
