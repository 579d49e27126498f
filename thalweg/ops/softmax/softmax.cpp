#include "thalweg/ops/softmax/softmax.h"

#include "thalweg/backend/cpu/kernels/softmax.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/softmax/gradients.h"
#include "thalweg/ops/transpose/transpose.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

// All over the last axis.
struct Softmax {};             // x -> y
struct LogSoftmax {};          // x -> y
struct SoftmaxBackward {};     // y, dy -> dx
struct LogSoftmaxBackward {};  // y, dy -> dx

Specs same_spec(Inputs in) { return {in[0]}; }
Specs infer(const Softmax&, Inputs in) { return same_spec(in); }
Specs infer(const LogSoftmax&, Inputs in) { return same_spec(in); }
Specs infer(const SoftmaxBackward&, Inputs in) { return same_spec(in); }
Specs infer(const LogSoftmaxBackward&, Inputs in) { return same_spec(in); }

// body(kernels, rows, n, TypeTag<T>), unless there is nothing to do.
template <class Body>
void with_kernels(const Array& x, Body body) {
  if (x.size() == 0) return;
  const std::int64_t n = x.shape().last();
  cpu::with_float_type(x.dtype(),
                       [&]<class T>(TypeTag<T> tag) { body(cpu::softmax_kernels<T>(), x.size() / n, n, tag); });
}

void run(const Softmax&, Arrays in, Arrays out) {
  with_kernels(in[0], [&]<class T>(const auto& kernels, std::int64_t rows, std::int64_t n, TypeTag<T>) {
    kernels.softmax(in[0].as<const T>(), rows, n, out[0].as<T>());
  });
}
void run(const LogSoftmax&, Arrays in, Arrays out) {
  with_kernels(in[0], [&]<class T>(const auto& kernels, std::int64_t rows, std::int64_t n, TypeTag<T>) {
    kernels.log_softmax(in[0].as<const T>(), rows, n, out[0].as<T>());
  });
}
void run(const SoftmaxBackward&, Arrays in, Arrays out) {
  with_kernels(in[0], [&]<class T>(const auto& kernels, std::int64_t rows, std::int64_t n, TypeTag<T>) {
    kernels.softmax_gradient(in[0].as<const T>(), in[1].as<const T>(), rows, n, out[0].as<T>());
  });
}
void run(const LogSoftmaxBackward&, Arrays in, Arrays out) {
  with_kernels(in[0], [&]<class T>(const auto& kernels, std::int64_t rows, std::int64_t n, TypeTag<T>) {
    kernels.log_softmax_gradient(in[0].as<const T>(), in[1].as<const T>(), rows, n, out[0].as<T>());
  });
}

const Reduce last_axis{.axes = -1, .keepdims = true};

Tensors reference(const Softmax&, const Tensors& in) {
  const Tensor e = exp(in[0] - reduce_max(in[0], last_axis));
  return {e / reduce_sum(e, last_axis)};
}
Tensors reference(const LogSoftmax&, const Tensors& in) {
  const Tensor below = in[0] - reduce_max(in[0], last_axis);
  return {below - log(reduce_sum(exp(below), last_axis))};
}
Tensors reference(const SoftmaxBackward&, const Tensors& in) {
  return {in[0] * (in[1] - reduce_sum(in[0] * in[1], last_axis))};
}
Tensors reference(const LogSoftmaxBackward&, const Tensors& in) {
  return {in[1] - exp(in[0]) * reduce_sum(in[1], last_axis)};
}

Keeps keeps(const Softmax&, Needs) { return {.inputs = {}, .outputs = {0}}; }
Keeps keeps(const LogSoftmax&, Needs) { return {.inputs = {}, .outputs = {0}}; }
Gradients gradient(const Softmax&, const Kept& kept, const Tensors& dy, Needs) {
  return {softmax_backward(kept.output(0), dy[0])};
}
Gradients gradient(const LogSoftmax&, const Kept& kept, const Tensors& dy, Needs) {
  return {log_softmax_backward(kept.output(0), dy[0])};
}

// f over the last axis of x with `axis` moved there, in f32 or f64.
template <class F>
Tensor along(const char* op, const Tensor& x, std::int64_t axis, F f) {
  check_defined(op, x);
  TW_CHECK_USER(is_float(x.dtype()), op, "tw::cast(x, tw::f32)",
                "expected a float dtype, since the results are fractions, got {}", x.dtype());
  const int place = resolve_axis(op, axis, x.rank()), last = x.rank() - 1;
  if (place == last) return cast(f(widen(x)), x.dtype());
  Ints swap;
  for (int i = 0; i <= last; ++i) swap.push_back(i == place ? last : i == last ? place : i);
  return cast(transpose(f(transpose(widen(x), swap)), swap), x.dtype());
}

BatchStates batch_rule(const Softmax&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 1);
}
BatchStates batch_rule(const LogSoftmax&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 1);
}
BatchStates batch_rule(const SoftmaxBackward&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 1);
}
BatchStates batch_rule(const LogSoftmaxBackward&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 1);
}

}  // namespace

TW_DEFINE_OP(softmax, Softmax)
TW_DEFINE_OP(log_softmax, LogSoftmax)
TW_DEFINE_OP(softmax_backward, SoftmaxBackward)
TW_DEFINE_OP(log_softmax_backward, LogSoftmaxBackward)

Tensor softmax(const Tensor& x, std::int64_t axis) {
  return along("softmax", x, axis, [](const Tensor& t) { return apply(softmax_info(), Softmax{}, {t})[0]; });
}
Tensor log_softmax(const Tensor& x, std::int64_t axis) {
  return along("log_softmax", x, axis, [](const Tensor& t) { return apply(log_softmax_info(), LogSoftmax{}, {t})[0]; });
}
Tensor softmax_backward(const Tensor& y, const Tensor& dy) {
  return apply(softmax_backward_info(), SoftmaxBackward{}, {y, dy})[0];
}
Tensor log_softmax_backward(const Tensor& y, const Tensor& dy) {
  return apply(log_softmax_backward_info(), LogSoftmaxBackward{}, {y, dy})[0];
}

}  // namespace thalweg
