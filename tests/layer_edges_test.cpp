// Layers at the edges of what they take: kinks, infinities, and calls whose gradient is taken elsewhere.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/values.h"
#include "thalweg/autodiff/custom_gradient.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/nn/nn.h"
#include "thalweg/ops/ops.h"
#include "thalweg/plan/function.h"

namespace thalweg::nn {
namespace {

using testing::near;

Tensor gradient_of(Layer& layer, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(layer(x), x);
}

// As relu, relu6 and leaky_relu: zero at 0 and at 6, the slope at 0.
TEST(relu_layer, has_the_derivatives_of_the_ops_at_its_kinks) {
  const Tensor x = tensor({-1., 0., 2., 6., 7.});
  ReLU plain, six({.max_value = 6}), limited({.max_value = 2}), leaky({.negative_slope = 0.25}),
      both({.max_value = 6, .negative_slope = 0.25});
  EXPECT_TRUE(near(gradient_of(plain, x), tensor({0., 0., 1., 1., 1.}), 0));
  EXPECT_TRUE(near(gradient_of(six, x), tensor({0., 0., 1., 0., 0.}), 0));
  EXPECT_TRUE(near(gradient_of(limited, x), tensor({0., 0., 1., 0., 0.}), 0));  // at 2 as clip_by_value
  EXPECT_TRUE(near(gradient_of(leaky, x), tensor({0.25, 0.25, 1., 1., 1.}), 0));
  EXPECT_TRUE(near(gradient_of(both, x), tensor({0.25, 0., 1., 0., 0.}), 0));
  EXPECT_TRUE(near(both(x), tensor({-0.25, 0., 2., 6., 6.}), 0));
}

TEST(relu_layer, takes_infinities_and_shows_what_is_no_number) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor x = tensor({-inf, inf, nan, 1., 0.5});
  ReLU limited({.max_value = 6}), shifted({.threshold = 1}), leaky({.max_value = 6, .negative_slope = 0.25}),
      all({.max_value = 6, .negative_slope = 0.25, .threshold = 1});
  EXPECT_TRUE(near(limited(x), tensor({0., 6., nan, 1., 0.5}), 0));
  EXPECT_TRUE(near(shifted(x), tensor({0., inf, nan, 1., 0.}), 0));
  EXPECT_TRUE(near(leaky(x), tensor({-inf, 6., nan, 1., 0.5}), 0));
  EXPECT_TRUE(near(all(x), tensor({-inf, 6., nan, 1., -0.125}), 0));
}

// The pass that is run again is in training if the first one was.
TEST(recompute, runs_layers_again_as_they_ran) {
  Dropout layer({.rate = 0.5});
  const Tensor x = ones({1000});
  GradientTape tape;
  tape.watch(x);
  Tensor y;
  {
    const auto scope = training(true);
    y = recompute([&](const Tensor& t) { return layer(t); })(x);
  }
  EXPECT_TRUE(testing::same_bits(tape.gradient(y, x), y));  // for x of ones the gradient is the mask itself
  EXPECT_FALSE(is_training());
  EXPECT_EQ(reduce_max(y).item<float>(), 2);
}

TEST(recompute, runs_layers_again_out_of_training_inside_of_it) {
  Dropout layer({.rate = 0.5});
  const Tensor x = ones({1000});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = recompute([&](const Tensor& t) { return layer(t) * t; })(x);
  const auto scope = training(true);
  EXPECT_TRUE(near(tape.gradient(y, x), full({1000}, 2.f), 0));
  EXPECT_TRUE(is_training());
}

}  // namespace
}  // namespace thalweg::nn
