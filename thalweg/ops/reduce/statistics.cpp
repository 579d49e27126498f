// Reductions made of other ops. 16-bit floats are widened once, so that squares and sums neither overflow nor lose.
#include <cmath>
#include <limits>

#include "thalweg/core/check.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/guarded_root.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/stop_gradient/stop_gradient.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

Tensor wide_float(const char* op, const Tensor& x) {
  check_defined(op, x);
  TW_CHECK_USER(is_float(x.dtype()), op, "cast to a float first: tw::cast(x, tw::f32)",
                "expected a float dtype, got {}", x.dtype());
  return widen(x);
}

Tensor without_axes(const char* op, const Tensor& x, const Reduce& options) {
  return options.keepdims ? x : squeeze(x, options.axes.resolve(op, x.rank()));
}

// Mean and variance with reduced axes of size 1, of a tensor that is wide enough.
Moments wide_moments(const Tensor& x, const Axes& axes) {
  const Tensor mean = reduce_mean(x, {.axes = axes, .keepdims = true});
  return {mean, reduce_mean(squared_difference(x, mean), {.axes = axes, .keepdims = true})};
}

}  // namespace

Tensor guarded_sqrt(const Tensor& x) { return where(x == 0, 0, sqrt(where(x == 0, 1, x))); }

Moments moments(const Tensor& x, const Reduce& options) {
  const auto [mean, variance] = wide_moments(wide_float("moments", x), options.axes);
  return {cast(without_axes("moments", mean, options), x.dtype()),
          cast(without_axes("moments", variance, options), x.dtype())};
}

Tensor reduce_variance(const Tensor& x, const Reduce& options) {
  const auto [mean, variance] = wide_moments(wide_float("reduce_variance", x), options.axes);
  return cast(without_axes("reduce_variance", variance, options), x.dtype());
}

Tensor reduce_std(const Tensor& x, const Reduce& options) {
  const auto [mean, variance] = wide_moments(wide_float("reduce_std", x), options.axes);
  return cast(guarded_sqrt(without_axes("reduce_std", variance, options)), x.dtype());
}

Tensor logsumexp(const Tensor& x, const Reduce& options) {
  const Tensor wide = wide_float("logsumexp", x);
  const Tensor largest = stop_gradient(reduce_max(wide, {.axes = options.axes, .keepdims = true}));
  const Tensor shift = where(isfinite(largest), largest, 0);
  const Tensor sum = reduce_sum(exp(wide - shift), {.axes = options.axes, .keepdims = true});
  const Tensor nothing = sum == 0;  // every x is -inf, or there is none
  const Tensor y = where(nothing, -std::numeric_limits<double>::infinity(), log(where(nothing, 1, sum)) + shift);
  return cast(without_axes("logsumexp", y, options), x.dtype());
}

Tensor norm(const Tensor& x, const Norm& options) {
  const double order = options.order;
  TW_CHECK_USER(order > 0, "norm", "use 1, 2 or infinity", "expected an order above 0, got {}", order);
  const Tensor wide = wide_float("norm", x);
  const Reduce over{options.axes, options.keepdims};
  const auto narrow = [&](const Tensor& y) { return cast(y, x.dtype()); };
  if (order == 2) return narrow(guarded_sqrt(reduce_sum(square(wide), over)));
  if (order == 1) return narrow(reduce_sum(abs(wide), over));
  if (std::isinf(order)) return narrow(reduce_max(abs(wide), over));
  const auto power = [](const Tensor& a, double p) { return where(a == 0, 0, pow(where(a == 0, 1, a), p)); };
  return narrow(power(reduce_sum(power(abs(wide), order), over), 1 / order));
}

Tensor l2_normalize(const Tensor& x, const L2Normalize& options) {
  const Tensor wide = wide_float("l2_normalize", x);
  const Tensor sum = reduce_sum(square(wide), {.axes = options.axes, .keepdims = true});
  return cast(wide * rsqrt(maximum(sum, options.epsilon)), x.dtype());
}

}  // namespace thalweg
