#include "thalweg/ops/cross_entropy/cross_entropy.h"

#include "thalweg/backend/cpu/kernels/cross_entropy.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/cross_entropy/gradients.h"
#include "thalweg/ops/cross_entropy/labels.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/softmax/softmax.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

// Statistics [..., 2] are kept, so that the gradient need not find them again: the largest logit, and its softmax.
struct Dense {};           // labels, logits -> loss, statistics
struct DenseBackward {};   // labels, logits, statistics, dloss -> dlogits
struct Sparse {};          // labels, logits -> loss, statistics
struct SparseBackward {};  // labels, logits, statistics, dloss -> dlogits

Specs infer_losses(const char* op, const Spec& logits) {
  TW_CHECK_USER(is_float(logits.dtype), op, "tw::cast(logits, tw::f32)", "expected logits of a float dtype, got {}",
                logits.dtype);
  TW_CHECK_USER(logits.rank() >= 1 && logits.shape.last() >= 1, op, "logits are [..., classes]",
                "expected logits with at least one class, got {}", logits.shape);
  const Spec loss{wide(logits.dtype), logits.shape.without(logits.rank() - 1)};  // of 16-bit logits: f32
  return {loss, Spec{loss.dtype, concatenate(loss.shape, Shape{2})}};
}

Specs infer(const Dense&, Inputs in) {
  TW_CHECK_USER(in[0].shape == in[1].shape, "softmax_cross_entropy",
                "give a probability for every class, or the class numbers to tw::sparse_softmax_cross_entropy",
                "expected labels of the shape of the logits {}, got {}", in[1].shape, in[0].shape);
  return infer_losses("softmax_cross_entropy", in[1]);
}

[[maybe_unused]] bool checks_values(const Sparse&) { return true; }

Specs infer(const Sparse&, Inputs in) {
  constexpr const char* op = "sparse_softmax_cross_entropy";
  TW_CHECK_USER(in[0].dtype == i32 || in[0].dtype == i64, op,
                "labels are class numbers; give probabilities to tw::softmax_cross_entropy",
                "expected labels of i32 or i64, got {}", in[0].dtype);
  Specs losses = infer_losses(op, in[1]);
  TW_CHECK_USER(in[0].shape == losses[0].shape, op, "labels have the shape of the logits without the classes",
                "expected labels {} for logits {}, got {}", losses[0].shape, in[1].shape, in[0].shape);
  return losses;
}

Specs infer(const DenseBackward&, Inputs in) { return {in[1]}; }
[[maybe_unused]] bool checks_values(const SparseBackward&) { return true; }

Specs infer(const SparseBackward&, Inputs in) { return {in[1]}; }

// body(kernels, rows, n, TypeTag<S>), S of the logits and their gradients; the rest is T.
template <class Body>
void with_kernels(const Array& logits, Body body) {
  const std::int64_t n = logits.shape().last();
  cpu::with_float_type(logits.dtype(), [&]<class S>(TypeTag<S> tag) {
    body(cpu::cross_entropy_kernels<S>(), logits.size() / n, n, tag);
  });
}

void run(const Dense&, Arrays in, Arrays out) {
  with_kernels(in[1], [&]<class S>(const auto& kernels, std::int64_t rows, std::int64_t n, TypeTag<S>) {
    using T = cpu::Wide<S>;
    kernels.dense(in[1].as<const S>(), in[0].as<const T>(), rows, n, out[0].as<T>(), out[1].as<T>());
  });
}
void run(const Sparse&, Arrays in, Arrays out) {
  check_labels("sparse_softmax_cross_entropy", in[0], in[1].shape().last());
  with_kernels(in[1], [&]<class S>(const auto& kernels, std::int64_t rows, std::int64_t n, TypeTag<S>) {
    using T = cpu::Wide<S>;
    kernels.sparse(in[1].as<const S>(), label_view(in[0]), rows, n, out[0].as<T>(), out[1].as<T>());
  });
}
void run(const DenseBackward&, Arrays in, Arrays out) {
  with_kernels(in[1], [&]<class S>(const auto& kernels, std::int64_t rows, std::int64_t n, TypeTag<S>) {
    using T = cpu::Wide<S>;
    kernels.dense_gradient(in[1].as<const S>(), in[0].as<const T>(), in[2].as<const T>(), in[3].as<const T>(), rows, n,
                           out[0].as<S>());
  });
}
void run(const SparseBackward&, Arrays in, Arrays out) {
  check_labels("sparse_softmax_cross_entropy_backward", in[0], in[1].shape().last());
  with_kernels(in[1], [&]<class S>(const auto& kernels, std::int64_t rows, std::int64_t n, TypeTag<S>) {
    using T = cpu::Wide<S>;
    kernels.sparse_gradient(in[1].as<const S>(), label_view(in[0]), in[2].as<const T>(), in[3].as<const T>(), rows, n,
                            out[0].as<S>());
  });
}

// [..., classes]: true at the right class.
Tensor right_class(const Tensor& labels, const Tensor& logits) {
  return expand_dims(labels, -1) == cast(arange(logits.shape().last()), labels.dtype());
}

Tensor statistics(const Tensor& logits) {
  return stack({reduce_max(logits, {.axes = -1}), reduce_max(softmax(logits), {.axes = -1})}, -1);
}

Tensors reference(const Dense&, const Tensors& in) {
  return {-reduce_sum(in[0] * log_softmax(in[1]), {.axes = -1}), statistics(in[1])};
}
Tensors reference(const Sparse&, const Tensors& in) {
  const Tensor chosen = where(right_class(in[0], in[1]), log_softmax(in[1]), 0);
  return {-reduce_sum(chosen, {.axes = -1}), statistics(in[1])};
}
// These find the softmax anew, so that derivatives by the logits are complete without one by the statistics.
Tensors reference(const DenseBackward&, const Tensors& in) {
  return {(softmax(in[1]) - in[0]) * expand_dims(in[3], -1)};
}
Tensors reference(const SparseBackward&, const Tensors& in) {
  return {(softmax(in[1]) - cast(right_class(in[0], in[1]), in[1].dtype())) * expand_dims(in[3], -1)};
}

Keeps keeps(const Dense&, Needs needs) {
  return needs[1] ? Keeps{.inputs = {0, 1}, .outputs = {1}} : Keeps{.inputs = {1}, .outputs = {}};
}
Keeps keeps(const Sparse&, Needs) { return {.inputs = {0, 1}, .outputs = {1}}; }

Gradients gradient(const Dense&, const Kept& kept, const Tensors& dy, Needs needs) {
  Gradients result(2);
  if (needs[0]) result[0] = -log_softmax(kept.input(1)) * expand_dims(dy[0], -1);
  if (needs[1]) result[1] = softmax_cross_entropy_backward(kept.input(0), kept.input(1), kept.output(1), dy[0]);
  return result;
}
Gradients gradient(const Sparse&, const Kept& kept, const Tensors& dy, Needs) {
  return {Gradient(), sparse_softmax_cross_entropy_backward(kept.input(0), kept.input(1), kept.output(1), dy[0])};
}

BatchStates batch_rule(const Dense&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[1].rank() - 1, 2);
}
BatchStates batch_rule(const Sparse&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[1].rank() - 1, 2);
}
BatchStates batch_rule(const DenseBackward&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[1].rank() - 1);
}
BatchStates batch_rule(const SparseBackward&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[1].rank() - 1);
}

}  // namespace

TW_DEFINE_OP(softmax_cross_entropy, Dense)
TW_DEFINE_OP(softmax_cross_entropy_backward, DenseBackward)
TW_DEFINE_OP(sparse_softmax_cross_entropy, Sparse)
TW_DEFINE_OP(sparse_softmax_cross_entropy_backward, SparseBackward)

Tensor softmax_cross_entropy(const Tensor& labels, const Tensor& logits) {
  const DType dtype = promote("softmax_cross_entropy", labels.dtype(), logits.dtype());
  return cast(softmax_cross_entropy_forward(cast(labels, wide(dtype)), cast(logits, wide(dtype))).loss, dtype);
}

Tensor sparse_softmax_cross_entropy(const Tensor& labels, const Tensor& logits) {
  return cast(sparse_softmax_cross_entropy_forward(labels, widen(logits)).loss, logits.dtype());
}

CrossEntropyResult softmax_cross_entropy_forward(const Tensor& labels, const Tensor& logits) {
  const Tensors out = apply(softmax_cross_entropy_info(), Dense{}, {labels, logits});
  return {out[0], out[1]};
}
CrossEntropyResult sparse_softmax_cross_entropy_forward(const Tensor& labels, const Tensor& logits) {
  const Tensors out = apply(sparse_softmax_cross_entropy_info(), Sparse{}, {labels, logits});
  return {out[0], out[1]};
}

Tensor softmax_cross_entropy_backward(const Tensor& labels, const Tensor& logits, const Tensor& statistics,
                                      const Tensor& dloss) {
  return apply(softmax_cross_entropy_backward_info(), DenseBackward{}, {labels, logits, statistics, dloss})[0];
}
Tensor sparse_softmax_cross_entropy_backward(const Tensor& labels, const Tensor& logits, const Tensor& statistics,
                                             const Tensor& dloss) {
  return apply(sparse_softmax_cross_entropy_backward_info(), SparseBackward{}, {labels, logits, statistics, dloss})[0];
}

}  // namespace thalweg
