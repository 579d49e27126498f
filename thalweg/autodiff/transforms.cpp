#include "thalweg/autodiff/transforms.h"

#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/copy/copy.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg {
namespace {

Tensor or_zeros(const Tensor& gradient, const Shape& shape, DType dtype) {
  return gradient.defined() ? gradient : zeros(shape, dtype);
}

void check_direction(const char* op, const Tensor& x, const Tensor& v) {
  TW_CHECK_USER(x.spec() == v.spec(), op, "the direction has the shape and dtype of x", "expected {} {}, got {} {}",
                x.shape(), x.dtype(), v.shape(), v.dtype());
}

using ListFunction = std::function<Tensor(const std::vector<Tensor>&)>;

std::vector<Tensor> gradients_of(const ListFunction& f, const std::vector<Tensor>& inputs) {
  GradientTape tape;
  tape.watch(inputs);
  auto found = tape.gradient(f(inputs), inputs, {.unconnected = Unconnected::zero});
  return std::vector<Tensor>(found.begin(), found.end());
}

// The tape's gradients of f against fourth-order central differences of its sum.
void check_entries(const ListFunction& f, const std::vector<Tensor>& inputs, int order, double tolerance, double h) {
  const auto sum_at = [&](std::size_t i, std::size_t entry, double step) {
    std::vector<Tensor> moved = inputs;
    auto values = inputs[i].to_vector<double>();
    values[entry] += step;
    moved[i] = Tensor::from(values, inputs[i].shape());
    return reduce_sum(f(moved)).item<double>();
  };
  double worst = 0, worst_tape = 0, worst_numeric = 0;
  std::size_t worst_input = 0, worst_entry = 0;
  const auto by_tape = gradients_of(f, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto tape = by_tape[i].to_vector<double>();
    for (std::size_t entry = 0; entry < tape.size(); ++entry) {
      const double numeric =
          (8 * (sum_at(i, entry, h) - sum_at(i, entry, -h)) - (sum_at(i, entry, 2 * h) - sum_at(i, entry, -2 * h))) /
          (12 * h);
      const double off = std::abs(tape[entry] - numeric) / std::max({1.0, std::abs(tape[entry]), std::abs(numeric)});
      if (off <= worst && std::isfinite(off)) continue;
      worst = std::isfinite(off) ? off : INFINITY;
      worst_tape = tape[entry], worst_numeric = numeric, worst_input = i, worst_entry = entry;
    }
  }
  TW_CHECK(failed_precondition, worst <= tolerance, "check_gradients",
           "look for a wrong gradient rule, a kink near the inputs, or a random or integer path",
           "order {}: expected gradients within {:g}, got {:g} at input {} entry {}: tape {:g}, differences {:g}",
           order, tolerance, worst, worst_input, worst_entry, worst_tape, worst_numeric);
}

}  // namespace

namespace detail {

std::pair<Tensor, Tensor> value_and_gradient(const TensorFunction& f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  Tensor y = f(x);
  return {y, tape.gradient(y, x, {.unconnected = Unconnected::zero})};
}

}  // namespace detail

// J v from two backward passes: u -> J^T u is linear, and its own gradient along v is J v.
std::pair<Tensor, Tensor> jvp(const TensorFunction& f, const Tensor& x, const Tensor& v) {
  check_direction("jvp", x, v);
  GradientTape outer({.watch_accessed_variables = false});
  GradientTape inner({.watch_accessed_variables = false});
  inner.watch(x);
  Tensor y = f(x);
  const Tensor u = zeros(y.shape(), y.dtype());
  outer.watch(u);
  const Tensor pulled = inner.gradient(y, x, {.output_gradients = {u}});
  Tensor pushed;
  if (pulled.defined()) pushed = outer.gradient(pulled, u, {.output_gradients = {v}});
  return {y, or_zeros(pushed, y.shape(), y.dtype())};
}

Tensor hessian(const TensorFunction& f, const Tensor& x) {
  GradientTape outer;
  outer.watch(x);
  const Tensor gradient = grad(f)(x);
  return or_zeros(outer.jacobian(gradient, x), concatenate(x.shape(), x.shape()), x.dtype());
}

Tensor hvp(const TensorFunction& f, const Tensor& x, const Tensor& v) {
  check_direction("hvp", x, v);
  GradientTape outer;
  outer.watch(x);
  const Tensor gradient = grad(f)(x);
  return outer.gradient(gradient, x, {.unconnected = Unconnected::zero, .output_gradients = {v}});
}

void check_gradients(const ListFunction& f, const std::vector<Tensor>& inputs, const CheckGradients& options) {
  TW_CHECK_USER(options.order == 1 || options.order == 2, "check_gradients", "pass {.order = 1} or {.order = 2}",
                "expected order 1 or 2, got {}", options.order);
  std::vector<Tensor> wide;
  for (const auto& input : inputs) {
    TW_CHECK_USER(is_float(input.dtype()), "check_gradients", "capture integer inputs in f instead of passing them",
                  "expected float inputs, got {}", input.dtype());
    wide.push_back(copy(cast(input, f64)));  // a tensor that is given twice is two inputs
  }
  check_entries(f, wide, 1, options.tolerance, options.step);
  if (options.order < 2) return;
  // A fixed combination of all first derivatives, with weights that do not repeat.
  const ListFunction first = [&f](const std::vector<Tensor>& in) {
    Tensor sum = zeros({}, f64);
    for (const auto& gradient : gradients_of(f, in)) {
      const Tensor weights = reshape(cos(linspace(0.5, 3.7, gradient.size(), f64)), gradient.shape());
      sum = sum + reduce_sum(gradient * weights);
    }
    return sum;
  };
  check_entries(first, wide, 2, 100 * options.tolerance, options.step);
}

}  // namespace thalweg
