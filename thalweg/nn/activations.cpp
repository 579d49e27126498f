#include "thalweg/nn/activations.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/softmax/softmax.h"

namespace thalweg::nn {

Tensor ReLU::call(const Tensor& x) {
  const auto& [max_value, slope, threshold, name] = options_;
  const auto limited = [&](const Tensor& y) { return max_value ? minimum(y, *max_value) : y; };
  if (threshold == 0) {  // with the derivatives of the ops at 0 and at 6
    if (!max_value && slope != 0) return leaky_relu(x, slope);
    const Tensor above = max_value == 6 ? relu6(x) : limited(relu(x));
    return slope == 0 ? above : above - slope * relu(-x);
  }
  const Tensor below = slope == 0 ? zeros_like(x) : slope * (x - threshold);  // 0 times an infinity is no number
  return where(x < threshold, below, limited(x));
}

Tensor LeakyReLU::call(const Tensor& x) { return leaky_relu(x, options_.negative_slope); }

void PReLU::build(const Spec& x) {
  TW_CHECK_USER(x.rank() >= 2, "prelu", "the input is [batch, …]", "expected an input of rank 2 or more, got {}",
                x.shape);
  Shape shape = x.shape.suffix(1);
  for (const auto axis : options_.shared_axes.resolve("prelu", x.rank())) {
    TW_CHECK_USER(axis > 0, "prelu", "slopes are shared by all examples anyway",
                  "expected shared axes behind that of the examples, got axis 0");
    shape = shape.with(static_cast<int>(axis) - 1, 1);
  }
  alpha_ = add_variable("alpha", shape, options_.alpha_initializer,
                        {.dtype = weight_dtype(x), .regularizer = options_.alpha_regularizer});
}

Tensor PReLU::call(const Tensor& x) {
  check_fits("prelu", alpha_.shape(), x.shape());
  return relu(x) - read(alpha_, x.dtype()) * relu(-x);
}

Tensor ELU::call(const Tensor& x) {
  return options_.alpha == 1 ? elu(x) : where(x > 0, x, options_.alpha * expm1(minimum(x, 0)));
}

Tensor Softmax::call(const Tensor& x) { return softmax(x, options_.axis); }

Tensor Lambda::call(const Tensor& x) { return options_.function(x); }

}  // namespace thalweg::nn
