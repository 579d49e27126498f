#include "thalweg/losses/reduction.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/widen.h"

namespace thalweg::losses {
namespace {

bool one_longer(const Tensor& a, const Tensor& b) { return a.rank() == b.rank() + 1 && a.shape()[a.rank() - 1] == 1; }

Tensor without_last(const Tensor& x) { return reshape(x, x.shape().prefix(x.rank() - 1)); }

// Where the ranks differ by one and the longer ends with size 1, both get the same rank.
void same_rank(Tensor& a, Tensor& b) {
  if (one_longer(b, a)) return same_rank(b, a);
  if (!one_longer(a, b) || b.rank() == 0) return;
  if (b.rank() == 1)
    b = reshape(b, {b.shape()[0], 1});
  else
    a = without_last(a);
}

Tensor mean_of(const Tensor& values) { return values.size() == 0 ? reduce_sum(values) : reduce_mean(values); }

}  // namespace

Tensor prediction_of(const Tensor& y_pred) { return is_float(y_pred.dtype()) ? widen(y_pred) : cast(y_pred, f32); }

Tensor class_numbers(const Tensor& labels) {
  return cast(is_float(labels.dtype()) ? where(isnan(labels), -1e9, labels) : labels, i64);
}

Tensor mean_over_last(const Tensor& x) {
  return x.size() == 0 ? reduce_sum(x, {.axes = -1}) : reduce_mean(x, {.axes = -1});
}

Pair pair_of(const Tensor& y_true, const Tensor& y_pred) {
  Tensor prediction = prediction_of(y_pred), truth = cast(y_true, prediction.dtype());
  same_rank(truth, prediction);
  return {truth, prediction};
}

Tensor fitted_weights(const char* op, const char* what, const Tensor& weights, const Shape& values) {
  Tensor result = weights;
  if (result.rank() == 0) return result;
  if (result.rank() == values.rank() + 1 && result.shape().last() == 1) result = without_last(result);
  const int rank = result.rank();
  bool fits = rank <= values.rank();
  for (int axis = 0; fits && axis < rank; ++axis)
    fits = result.shape()[axis] == values[axis] || result.shape()[axis] == 1;
  TW_CHECK_USER(fits, op, "give one for each value, or one for each example",
                "expected {} of shape {} or of its leading axes, got {}", what, values, weights.shape());
  Ints shape(values.rank(), 1);
  for (int axis = 0; axis < rank; ++axis) shape[axis] = result.shape()[axis];
  return reshape(result, Shape(shape));
}

Tensor fitted_mask(const char* loss, const Tensor& mask, const Shape& values) {
  TW_CHECK_USER(mask.dtype() == boolean, loss, "true keeps a value: compare first, for example ids != 0",
                "expected a boolean mask, got {}", mask.dtype());
  return fitted_weights(loss, "mask", mask, values);
}

Tensor reduced(const char* loss, Tensor values, const LossOptions& options) {
  Tensor weights, mask;
  if (options.sample_weight.defined())
    weights = fitted_weights(loss, "sample_weight", cast(options.sample_weight, values.dtype()), values.shape());
  if (options.mask.defined()) mask = cast(fitted_mask(loss, options.mask, values.shape()), values.dtype());
  const Tensor factor = !mask.defined() ? weights : weights.defined() ? weights * mask : mask;
  if (factor.defined()) values = values * factor;

  switch (options.reduction) {
    case Reduction::none: return values;
    case Reduction::sum: return reduce_sum(values);
    case Reduction::mean_with_sample_weight:
      return factor.defined() ? divide_no_nan(reduce_sum(values), reduce_sum(factor)) : mean_of(values);
    case Reduction::sum_over_batch_size:
    case Reduction::mean: break;
  }
  if (!mask.defined()) return mean_of(values);
  // A mask of fewer axes stands for as many values of each example.
  const auto repeated =
      static_cast<double>(values.size()) / static_cast<double>(std::max<std::int64_t>(mask.size(), 1));
  return divide_no_nan(reduce_sum(values), reduce_sum(mask) * repeated);
}

}  // namespace thalweg::losses
