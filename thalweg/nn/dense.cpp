#include "thalweg/nn/dense.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"

namespace thalweg::nn {

void Dense::build(const Spec& x) {
  TW_CHECK_USER(options_.units > 0, "dense", "name the number of outputs: {.units = 10}",
                "expected units above 0, got {}", options_.units);
  TW_CHECK_USER(x.rank() >= 2, "dense", "tw::expand_dims(x, 0) makes a batch of one example",
                "expected an input of rank 2 or more, got {}", x.shape);
  const DType dtype = weight_dtype(x);
  kernel_ = add_variable("kernel", {x.shape.last(), options_.units}, options_.kernel_initializer,
                         {.dtype = dtype, .regularizer = options_.kernel_regularizer});
  if (options_.use_bias)
    bias_ = add_variable("bias", {options_.units}, options_.bias_initializer,
                         {.dtype = dtype, .regularizer = options_.bias_regularizer});
}

Tensor Dense::call(const Tensor& x) {
  Tensor y = matmul(x, read(kernel_, x.dtype()));
  if (options_.use_bias) y = y + read(bias_, x.dtype());
  return options_.activation(y);
}

}  // namespace thalweg::nn
