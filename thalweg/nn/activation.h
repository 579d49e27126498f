#pragma once

#include <functional>
#include <type_traits>

#include "thalweg/core/tensor.h"
#include "thalweg/ops/elementwise.h"

namespace thalweg::nn {

// What a layer does to its result, any function of one tensor: {.activation = tw::relu}. None by default.
class TW_API Activation {
 public:
  Activation() = default;
  template <class F>
  requires(!std::is_same_v<F, Activation> && std::is_invocable_r_v<Tensor, const F&, const Tensor&>) Activation(F f)
      : f_(std::move(f)) {}
  Activation(Tensor (*f)(const Tensor&, std::int64_t axis)) : f_([f](const Tensor& x) { return f(x, -1); }) {}
  Activation(Tensor (*f)(const Tensor&, const Gelu&)) : f_([f](const Tensor& x) { return f(x, {}); }) {}

  Tensor operator()(const Tensor& x) const { return f_ ? f_(x) : x; }

 private:
  std::function<Tensor(const Tensor&)> f_;
};

}  // namespace thalweg::nn
