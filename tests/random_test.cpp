// Random numbers: the generator against its published vectors, distributions by their moments, and what may not change
// them.
#include "thalweg/ops/random/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/values.h"
#include "thalweg/autodiff/custom_gradient.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/philox.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/dropout/dropout.h"
#include "thalweg/ops/elementwise.h"

namespace thalweg {
namespace {

using testing::same_bits;

TEST(philox, matches_the_published_vectors) {  // Random123, philox4x32-10
  using random::philox, random::Words;
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0U, ~0U, ~0U, ~0U}, ~std::uint64_t{0}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822ULL),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

struct Statistics {
  double mean, deviation, low, high;
};

Statistics statistics(const Tensor& x) {
  const auto values = testing::as_doubles(x);
  double sum = 0, squares = 0;
  for (double v : values) sum += v, squares += v * v;
  const double n = static_cast<double>(values.size()), mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean), *std::min_element(values.begin(), values.end()),
          *std::max_element(values.begin(), values.end())};
}

TEST(random, distributions_have_their_moments) {
  random::set_seed(1);
  constexpr std::int64_t n = 200'000;
  for (DType dtype : {f32, f64}) {
    const auto normal = statistics(random::normal({n}, {.mean = 2, .stddev = 3, .dtype = dtype}));
    EXPECT_NEAR(normal.mean, 2, 0.03);
    EXPECT_NEAR(normal.deviation, 3, 0.03);
    EXPECT_GT(normal.high, 2 + 3 * 3.8);
    const auto truncated = statistics(random::truncated_normal({n}, {.dtype = dtype}));
    EXPECT_NEAR(truncated.mean, 0, 0.01);
    EXPECT_NEAR(truncated.deviation, 0.8796, 0.01);
    EXPECT_TRUE(truncated.low >= -2 && truncated.high <= 2);
    const auto uniform = statistics(random::uniform({n}, {.low = -1, .high = 3, .dtype = dtype}));
    EXPECT_NEAR(uniform.mean, 1, 0.02);
    EXPECT_NEAR(uniform.deviation, 4 / std::sqrt(12.0), 0.02);
    EXPECT_TRUE(uniform.low >= -1 && uniform.high < 3);
  }
  EXPECT_NEAR(statistics(random::bernoulli({n}, {.probability = 0.3})).mean, 0.3, 0.01);
  const auto whole = statistics(random::uniform({n}, {.low = 0, .high = 10, .dtype = i32}));
  EXPECT_TRUE(whole.low == 0 && whole.high == 9);
  EXPECT_NEAR(whole.mean, 4.5, 0.03);
}

TEST(random, seeds_repeat_and_calls_differ) {
  random::set_seed(7);
  const Tensor a = random::normal({100}), b = random::normal({100});
  random::set_seed(7);
  EXPECT_TRUE(same_bits(random::normal({100}), a));
  EXPECT_FALSE(same_bits(a, b));
  EXPECT_TRUE(same_bits(random::uniform({9}, {.seed = 3}), random::uniform({9}, {.seed = 3})));
  EXPECT_FALSE(same_bits(random::uniform({9}, {.seed = 3}), random::uniform({9}, {.seed = 4})));
}

TEST(random, threads_do_not_change_the_numbers) {
  config::set_threads(1);
  const Tensor one = random::normal({100'003}, {.seed = 5});
  for (int threads : {2, 3, 4}) {
    testing::Threads scope(threads);
    EXPECT_TRUE(same_bits(random::normal({100'003}, {.seed = 5}), one));
  }
}

TEST(random, a_permutation_has_every_number_once) {
  auto order = random::permutation(1000, {.seed = 1}).to_vector<std::int64_t>();
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(random::permutation(0).size(), 0);
}

TEST(random, attention_takes_a_number_only_if_it_drops_weights) {
  const Tensor q = ones({1, 2, 3, 4});
  const random::State before = random::state();
  attention(q, q, q);
  attention(q, q, q, {.dropout = 0.5, .seed = 1});
  EXPECT_THROW(attention(q, ones({1, 2, 3, 5}), q, {.dropout = 0.5}), Error);  // refused
  EXPECT_EQ(random::state(), before);
  attention(q, q, q, {.dropout = 0.5});
  EXPECT_EQ(random::state().calls, before.calls + 1);
}

TEST(random, recompute_draws_the_same_dropout_mask_again) {
  random::set_seed(3);
  const Tensor x = ones({1000});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = recompute([](const Tensor& t) { return dropout(dropout(t, 0.5) * 1, 0.25); })(x);
  const Tensor dx = tape.gradient(y, x);
  EXPECT_TRUE(same_bits(dx, y));  // for x of ones the gradient is the mask itself
  EXPECT_NEAR(statistics(y).mean, 1, 0.1);
}

}  // namespace
}  // namespace thalweg
