// config::strict_convolutions: whole numbers are exact where plain products are summed, and only there.
#include "thalweg/ops/convolution/strict.h"

#include <gtest/gtest.h>

#include "thalweg/autodiff/tape.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/convolution/convolution.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/plan/function.h"

namespace thalweg {
namespace {

struct StrictConvolutions : ::testing::Test {
  void TearDown() override { config::strict_convolutions(false); }

  static Tensor whole(const Shape& shape, std::uint64_t seed) {
    return round(3.f * random::uniform(shape, {.seed = seed}));
  }
  static Tensor convolve(const Tensor& x, const Tensor& kernel) { return conv2d(x, kernel, {.padding = same}); }
  static std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }
  std::vector<double> exact() const { return values(convolve(cast(x, f64), cast(kernel, f64))); }

  Tensor x = whole({4, 19, 21, 20}, 1), kernel = whole({3, 3, 20, 24}, 2);
};

TEST_F(StrictConvolutions, sum_plain_products) {
  EXPECT_FALSE(config::strict_convolutions());
  const auto expected = exact(), fast = values(convolve(x, kernel));
  EXPECT_NE(fast, expected);
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(fast[i], expected[i], 2e-5 * 800);
  config::strict_convolutions(true);
  EXPECT_TRUE(config::strict_convolutions());
  EXPECT_EQ(values(convolve(x, kernel)), expected);
}

TEST_F(StrictConvolutions, gradients_keep_what_the_convolution_was_made_with) {
  const auto gradients = [&](DType dtype, bool strict) {
    const Tensor a = cast(x, dtype), b = cast(kernel, dtype);
    config::strict_convolutions(strict);
    GradientTape tape;
    tape.watch(a);
    tape.watch(b);
    const Tensor loss = reduce_sum(convolve(a, b) * cast(whole({4, 19, 21, 24}, 3), dtype));
    config::strict_convolutions(!strict);
    const auto both = tape.gradient(loss, std::vector{a, b});
    return std::pair{values(both[0]), values(both[1])};
  };
  const auto expected = gradients(f64, true), strict = gradients(f32, true), fast = gradients(f32, false);
  EXPECT_EQ(strict, expected);
  EXPECT_NE(fast.first, expected.first);
  EXPECT_NE(fast.second, expected.second);
}

TEST_F(StrictConvolutions, functions_keep_what_they_were_traced_with) {
  auto fast = function([&](const Tensor& in) { return convolve(in, kernel); });
  const auto first = values(fast(x));
  config::strict_convolutions(true);
  auto strict = function([&](const Tensor& in) { return convolve(in, kernel); });
  EXPECT_EQ(values(fast(x)), first);
  EXPECT_EQ(values(strict(x)), exact());
  config::strict_convolutions(false);
  EXPECT_EQ(values(strict(x)), exact());
}

}  // namespace
}  // namespace thalweg
