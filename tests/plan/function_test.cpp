#include <gtest/gtest.h>

#include "thalweg/thalweg.h"

namespace tw = thalweg;

TEST(Function, computes_what_the_callable_computes) {
  const auto f = tw::function([](const tw::Tensor& x) { return tw::exp(x) * 2 + 1; });
  const auto x = tw::tensor({0.5f, -1.f, 2.f});
  EXPECT_EQ(f(x).to_vector<float>(), (tw::exp(x) * 2 + 1).to_vector<float>());
}

TEST(Function, trains_as_the_eager_step_does_bit_for_bit) {
  const auto make = [] {
    tw::random::set_seed(1);
    return tw::Variable(tw::random::normal({5, 3}), {.name = "w"});
  };
  const auto x = tw::random::normal({8, 5}), y = tw::random::normal({8, 3});
  const auto step = [&](tw::Variable w) {
    return [=](const tw::Tensor& a, const tw::Tensor& b) mutable {
      tw::GradientTape tape;
      const auto loss = tw::reduce_mean(tw::square(tw::tanh(tw::matmul(a, w)) - b));
      w.assign_sub(tape.gradient(loss, w) * 0.1f);
      return loss;
    };
  };
  auto eager_w = make(), compiled_w = make();
  auto eager = step(eager_w);
  const auto compiled = tw::function(step(compiled_w));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(eager(x, y).item<float>(), compiled(x, y).item<float>()) << i;
  EXPECT_EQ(eager_w.value().to_vector<float>(), compiled_w.value().to_vector<float>());
  EXPECT_EQ(compiled.stats().traces, 1);
  EXPECT_EQ(compiled_w.version(), 5);
}
