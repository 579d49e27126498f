#pragma once

// Functions of functions: f takes a tensor (grad and value_and_grad: and any more arguments) and returns a tensor,
// whose elements are summed where a scalar is needed.
#include <functional>
#include <utility>
#include <vector>

#include "thalweg/autodiff/tape.h"

namespace thalweg {

using TensorFunction = std::function<Tensor(const Tensor&)>;

namespace detail {
TW_API std::pair<Tensor, Tensor> value_and_gradient(const TensorFunction& f, const Tensor& x);
}

// value_and_grad(f)(x, …): f's value and its gradient by the first argument (zeros if it does not depend on it).
template <class F>
auto value_and_grad(F f) {
  return [f = std::move(f)](const Tensor& x, const auto&... rest) {
    return detail::value_and_gradient([&](const Tensor& first) -> Tensor { return f(first, rest...); }, x);
  };
}

template <class F>
auto grad(F f) {
  return [f = std::move(f)](const Tensor& x, const auto&... rest) { return value_and_grad(f)(x, rest...).second; };
}

// f(x) and its change along v: (y, J v).
TW_API std::pair<Tensor, Tensor> jvp(const TensorFunction& f, const Tensor& x, const Tensor& v);
// Second derivatives of sum f(x): [x..., x...], and their product with v, which never builds them.
TW_API Tensor hessian(const TensorFunction& f, const Tensor& x);
TW_API Tensor hvp(const TensorFunction& f, const Tensor& x, const Tensor& v);

struct CheckGradients {
  int order = 1;            // 2: the gradient of the gradient too
  double tolerance = 1e-6;  // relative, at order 1; order 2 has 100 times as much
  double step = 1e-4;
};
// Compares the tape's gradients of sum f(inputs) with differences, in f64, entry by entry. Throws
// failed_precondition with the worst entry.
TW_API void check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                            const std::vector<Tensor>& inputs, const CheckGradients& options = {});

}  // namespace thalweg
