#include "thalweg/ops/clip/clip.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/clip/norm.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/guarded_root.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/row_sparse/row_sparse.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

void check_bound(const char* op, double c) {
  TW_CHECK_USER(c > 0, op, "a bound of 1 is common", "expected a bound above 0, got {}", c);
}

void check_float(const char* op, DType dtype) {
  TW_CHECK_USER(is_float(dtype), op, "only floats have a norm: tw::cast(x, tw::f32)", "expected a float dtype, got {}",
                dtype);
}

Tensor sum_of_squares(const Tensor& x, DType wide) { return reduce_sum(square(cast(x, wide))); }

std::vector<Gradient> with_distinct_rows(const std::vector<Gradient>& gradients) {
  std::vector<Gradient> result;
  for (const auto& gradient : gradients) result.push_back(combine_rows(gradient));
  return result;
}

}  // namespace

Tensor norm_of_distinct(const char* op, const std::vector<Gradient>& gradients) {
  DType wide = f32;
  for (const auto& gradient : gradients) {
    if (!gradient.defined()) continue;
    check_float(op, gradient.dtype());
    if (gradient.dtype() == f64) wide = f64;
  }
  Tensor sum = zeros({}, wide);
  for (const auto& gradient : gradients)
    if (gradient.defined()) sum = sum + sum_of_squares(gradient.values(), wide);
  return guarded_sqrt(sum);
}

Tensor clip_by_norm(const Tensor& x, double c, const ClipByNorm& options) {
  check_defined("clip_by_norm", x);
  check_bound("clip_by_norm", c);
  check_float("clip_by_norm", x.dtype());
  const Tensor wide = widen(x);
  const Tensor length = guarded_sqrt(reduce_sum(square(wide), {.axes = options.axes, .keepdims = true}));
  return cast(wide * (c / maximum(length, c)), x.dtype());
}

Tensor global_norm(const std::vector<Gradient>& gradients) {
  return norm_of_distinct("global_norm", with_distinct_rows(gradients));
}

std::pair<std::vector<Gradient>, Tensor> clip_by_global_norm(const std::vector<Gradient>& gradients, double c) {
  check_bound("clip_by_global_norm", c);
  std::vector<Gradient> clipped = with_distinct_rows(gradients);
  const Tensor length = norm_of_distinct("clip_by_global_norm", clipped);
  const Tensor scale =
      c / maximum(length, c) + (length - length);  // the difference is NaN where the norm is not finite
  for (auto& gradient : clipped) {
    if (!gradient.defined()) continue;
    const Tensor values = cast(cast(gradient.values(), length.dtype()) * scale, gradient.dtype());
    gradient = gradient.is_sparse() ? Gradient(values, gradient.indices(), gradient.shape()) : Gradient(values);
  }
  return {clipped, length};
}

}  // namespace thalweg
