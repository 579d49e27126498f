#pragma once

// Gradients by the inputs of a batch of any size, in bounded memory: the batch is cut into parts that fit.
#include "thalweg/autodiff/transforms.h"

namespace thalweg {

struct InputGradients {
  std::int64_t memory_budget = 0;  // bytes for everything but x and the result; 0: no limit
};
// d sum f(x) / dx. f is called on tensors without values (see function.h), and treats the rows of x alike.
//   x [examples, …]   ->   [examples, …]
TW_API Tensor input_gradients(const TensorFunction& f, const Tensor& x, const InputGradients& options = {});

struct BatchJacobian {
  std::int64_t memory_budget = 0;
};
// d f(x)[i] / d x[i] for every example i, whose rows must not depend on each other.
//   x [examples, x…], f(x) [examples, y…]   ->   [examples, y…, x…]
TW_API Tensor batch_jacobian(const TensorFunction& f, const Tensor& x, const BatchJacobian& options = {});

}  // namespace thalweg
