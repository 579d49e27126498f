// Values and gradients where a reduction has a kink, a tie, a zero or nothing to reduce.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/autodiff/tape.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/clip/clip.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/cumulative/cumulative.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/kernel.h"
#include "thalweg/ops/reduce/reduce.h"

namespace thalweg {
namespace {

using Values = std::vector<double>;
constexpr double infinity = std::numeric_limits<double>::infinity();

// d sum(f(x)) / dx
template <class F>
Values gradient_of(const F& f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x).template to_vector<double>();
}

TEST(reduce, equal_extremes_share_the_gradient) {
  const Tensor x = tensor({{3.0, 1.0, 3.0, 3.0}, {0.0, 2.0, 1.0, 2.0}});
  EXPECT_EQ(gradient_of([](const Tensor& t) { return 3 * reduce_max(t, {.axes = 1}); }, x),
            (Values{1, 0, 1, 1, 0, 1.5, 0, 1.5}));
  EXPECT_EQ(gradient_of([](const Tensor& t) { return reduce_min(t); }, x), (Values{0, 0, 0, 0, 1, 0, 0, 0}));
}

TEST(reduce, product_gradient_is_exact_for_any_number_of_zeros) {
  const Tensor x = tensor({{2.0, 3.0, 4.0}, {2.0, 0.0, 4.0}, {0.0, 3.0, 0.0}});
  const auto product = [](const Tensor& t) { return reduce_prod(t, {.axes = 1}); };
  EXPECT_EQ(gradient_of(product, x), (Values{12, 8, 6, 0, 8, 0, 0, 0, 0}));
  // The second derivative by both zeros of a row is what remains: 3.
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor first = inner.gradient(product(x), x);
  EXPECT_EQ(
      outer.gradient(first * tensor({{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}, {1.0, 0.0, 0.0}}), x).to_vector<double>()[8], 3);
}

TEST(reduce, cumulative_product_gradient_is_exact_for_zeros) {
  const Tensor x = tensor({2.0, 0.0, 3.0, 0.0});  // products 2, 2z, 6z, 6zw at z = w = 0
  EXPECT_EQ(gradient_of([](const Tensor& t) { return cumprod(t); }, x), (Values{1, 2 + 6, 0, 0}));
  EXPECT_EQ(gradient_of([](const Tensor& t) { return cumprod(t, {.exclusive = true}); }, x), (Values{1, 2 + 6, 0, 0}));
}

TEST(reduce, deviation_and_norms_of_zero_have_zero_gradients) {
  const Tensor flat = full({3}, 2.0), zero = zeros({3}, f64);
  EXPECT_EQ(gradient_of([](const Tensor& t) { return reduce_std(t); }, flat), Values(3));
  for (double order : {0.5, 1.0, 2.0, 3.0, infinity}) {
    const auto length = [order](const Tensor& t) { return norm(t, {.order = order}); };
    EXPECT_EQ(length(zero).item<double>(), 0) << order;
    EXPECT_EQ(gradient_of(length, zero), Values(3)) << order;
  }
  EXPECT_EQ(gradient_of([](const Tensor& t) { return global_norm({t}); }, zero), Values(3));
  EXPECT_EQ(gradient_of([](const Tensor& t) { return clip_by_norm(t, 1); }, zero), Values(3, 1));
  EXPECT_EQ(gradient_of([](const Tensor& t) { return clip_by_global_norm({t}, 1).first[0].dense(); }, zero),
            Values(3, 1));
}

TEST(reduce, logsumexp_neither_overflows_nor_turns_to_nan) {
  const Tensor large = tensor({{1000.0, 1000.0}, {-1000.0, -1000.0}});
  const auto y = logsumexp(large, {.axes = 1}).to_vector<double>();
  EXPECT_DOUBLE_EQ(y[0], 1000 + std::log(2.0));
  EXPECT_DOUBLE_EQ(y[1], -1000 + std::log(2.0));
  const Tensor nothing = full({2}, -infinity);
  EXPECT_EQ(logsumexp(nothing).item<double>(), -infinity);
  EXPECT_EQ(gradient_of([](const Tensor& t) { return logsumexp(t); }, nothing), Values(2));
}

TEST(reduce, a_norm_that_is_not_finite_poisons_every_clipped_gradient) {
  const auto [list, norm] = clip_by_global_norm({tensor({1.0, infinity}), tensor({2.0})}, 1);
  EXPECT_EQ(norm.item<double>(), infinity);
  EXPECT_TRUE(std::isnan(list[0].dense().to_vector<double>()[0]));
  EXPECT_TRUE(std::isnan(list[1].dense().item<double>()));
}

TEST(reduce, clipped_sparse_gradients_stay_sparse_with_distinct_rows) {
  const Gradient sparse(tensor({{3.0}, {1.0}, {1.0}}), tensor({4, 1, 4}), {5, 1});  // rows 1: 1, 4: 4
  const auto [list, norm] = clip_by_global_norm({sparse}, 100);
  ASSERT_TRUE(list[0].is_sparse());
  EXPECT_EQ(list[0].indices().to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 4, -1}));
  EXPECT_EQ(list[0].values().to_vector<double>(), (Values{1, 4, 0}));
  EXPECT_DOUBLE_EQ(norm.item<double>(), std::sqrt(17.0));
}

TEST(reduce, narrow_floats_are_summed_wide) {
  const Tensor x = cast(full({70000}, 100.f), f16);  // the sum, 7e6, is beyond f16
  EXPECT_EQ(reduce_mean(x).item<float>(), 100);
  EXPECT_EQ(reduce_std(x).item<float>(), 0);
  EXPECT_EQ(reduce_std(cast(tensor({-300.f, 300.f}), f16)).item<float>(), 300);  // the variance is beyond f16 too
}

TEST(reduce, integers_wrap_around_and_their_mean_truncates) {
  const Tensor x = tensor({2147483647, 1});
  EXPECT_EQ(reduce_sum(x).item<std::int32_t>(), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(reduce_mean(x).item<std::int32_t>(), 1073741824);
  EXPECT_EQ(reduce_mean(tensor({-3, 0})).item<std::int32_t>(), -1);
  EXPECT_EQ(reduce_max(zeros({0}, i32)).item<std::int32_t>(), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(reduce_min(zeros({0}, u8)).item<std::uint8_t>(), 255);
}

// The bits of a sum do not depend on whether its operand is in memory.
TEST(reduce, sums_down_columns_have_one_order) {
  const auto check = [](DType dtype, auto zero) {
    using T = decltype(zero);
    for (const Shape& shape : {Shape{15, 5}, {97, 17}, {160, 300}, {1111, 130}, {4099, 7}, {2, 90, 140}}) {
      const Spec x{dtype, shape}, y{dtype, shape.without(shape.rank() - 2)};
      std::vector<T> from(static_cast<std::size_t>(x.size())), sums(static_cast<std::size_t>(y.size())), read(sums);
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i * 7919 % 1009) / 1009 - T(0.5);
      const cpu::Reduction reduction{.combine = cpu::Combine::sum, .mean = false, .axes = {shape.rank() - 2}};
      std::vector<std::byte> scratch(static_cast<std::size_t>(cpu::reduce_workspace(reduction, x)));
      cpu::reduce(reduction, Array{from.data(), &x}, Array{sums.data(), &y}, scratch.data());
      const auto copy = [&](std::int64_t first, std::int64_t count, void* to) {
        std::copy_n(from.data() + first, count, static_cast<T*>(to));
      };
      cpu::reduce(reduction, x, copy, Array{read.data(), &y}, scratch.data());
      EXPECT_EQ(sums, read) << shape;
    }
  };
  check(f32, 0.0f);
  check(f64, 0.0);
}

}  // namespace
}  // namespace thalweg
