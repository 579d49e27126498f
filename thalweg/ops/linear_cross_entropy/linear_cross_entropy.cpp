#include "thalweg/ops/linear_cross_entropy/linear_cross_entropy.h"

#include "thalweg/backend/cpu/kernels/loss_head.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/cross_entropy/labels.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/linear_cross_entropy/gradients.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

// Statistics [rows, 2] are kept as sparse_softmax_cross_entropy keeps them.
struct Head {
  bool transpose_w;
};
struct Forward : Head {};   // labels, x, w [, bias] -> loss, statistics
struct Backward : Head {};  // labels, x, w, statistics, dloss [, bias] -> dx, dw [, dbias]
TW_FIELDS(Forward, transpose_w)
TW_FIELDS(Backward, transpose_w)

constexpr int forward_inputs = 3, backward_inputs = 5;  // without the bias

[[maybe_unused]] bool checks_values(const Forward&) { return true; }
[[maybe_unused]] bool checks_values(const Backward&) { return true; }

std::int64_t classes_of(const Head& op, const Shape& w) { return w[op.transpose_w ? 0 : 1]; }

Specs infer(const Forward& op, Inputs in) {
  constexpr const char* name = "linear_cross_entropy";
  const Spec &labels = in[0], &x = in[1], &w = in[2];
  TW_CHECK_USER(is_float(x.dtype), name, "tw::cast(x, tw::f32)", "expected x of a float dtype, got {}", x.dtype);
  TW_CHECK_USER(labels.dtype == i32 || labels.dtype == i64, name, "labels are class numbers",
                "expected labels of i32 or i64, got {}", labels.dtype);
  TW_CHECK_USER(x.rank() == 2 && labels.shape == Shape{x.shape[0]}, name, "there is a label for every row of x",
                "expected labels for x {}, got {}", x.shape, labels.shape);
  TW_CHECK_USER(w.rank() == 2 && w.shape[op.transpose_w ? 1 : 0] == x.shape[1] && x.shape[1] > 0, name,
                "w is [size, classes], or [classes, size] with {.transpose_w = true}", "expected w for x {}, got {}",
                x.shape, w.shape);
  const std::int64_t classes = classes_of(op, w.shape);
  TW_CHECK_USER(classes > 0, name, "there is a column of w for every class", "expected at least one class, got w {}",
                w.shape);
  if (in.size() > forward_inputs)
    TW_CHECK_USER(in[forward_inputs].shape == Shape{classes}, name, "the bias has a number for every class",
                  "expected a bias {}, got {}", Shape{classes}, in[forward_inputs].shape);
  const DType dtype = wide(x.dtype);  // of 16-bit x and w: f32
  return {Spec{dtype, labels.shape}, Spec{dtype, {labels.shape[0], 2}}};
}

Specs infer(const Backward&, Inputs in) {
  Specs gradients{in[1], Spec{wide(in[2].dtype), in[2].shape}};
  if (in.size() > backward_inputs) gradients.push_back(in[backward_inputs]);
  return gradients;
}

cpu::LossHead describe(const Head& op, const Shape& x, const Shape& w) {
  return {.rows = x[0], .depth = x[1], .classes = classes_of(op, w), .transposed = op.transpose_w};
}

template <class S>
cpu::LossHeadInputs<S> describe(const Head& op, Arrays in, std::size_t bias) {
  return {.head = describe(op, in[1].shape(), in[2].shape()),
          .x = in[1].as<const S>(),
          .w = in[2].as<const S>(),
          .bias = in.size() > bias ? in[bias].as<const cpu::Wide<S>>() : nullptr,
          .labels = label_view(in[0])};
}

double product_flops(Inputs in) { return 2 * static_cast<double>(in[1].shape[0]) * static_cast<double>(in[2].size()); }
double flops(const Forward&, Inputs in) { return product_flops(in); }
double flops(const Backward&, Inputs in) { return 3 * product_flops(in); }

std::int64_t workspace(const Forward& op, Inputs in) {
  const cpu::LossHead head = describe(op, in[1].shape, in[2].shape);
  std::int64_t bytes = 0;
  cpu::with_float_type(in[1].dtype, [&]<class S>(TypeTag<S>) { bytes = cpu::loss_head_workspace_forward<S>(head); });
  return bytes;
}
std::int64_t workspace(const Backward& op, Inputs in) {
  const cpu::LossHead head = describe(op, in[1].shape, in[2].shape);
  std::int64_t bytes = 0;
  cpu::with_float_type(in[1].dtype, [&]<class S>(TypeTag<S>) { bytes = cpu::loss_head_workspace_backward<S>(head); });
  return bytes;
}

void run(const Forward& op, Arrays in, Arrays out, Scratch scratch) {
  check_labels("linear_cross_entropy", in[0], classes_of(op, in[2].shape()));
  cpu::with_float_type(in[1].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    cpu::loss_head_forward(describe<S>(op, in, forward_inputs), out[0].as<T>(), out[1].as<T>(), scratch);
  });
}

void run(const Backward& op, Arrays in, Arrays out, Scratch scratch) {
  check_labels("linear_cross_entropy_backward", in[0], classes_of(op, in[2].shape()));
  cpu::with_float_type(in[1].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    const cpu::LossHeadGradients<S> gradients{out[0].as<S>(), out[1].as<T>(),
                                              out.size() > 2 ? out[2].as<T>() : nullptr};
    cpu::loss_head_backward(describe<S>(op, in, backward_inputs), in[3].as<const T>(), in[4].as<const T>(), gradients,
                            scratch);
  });
}

Tensor plain_logits(const Head& op, const Tensors& in, std::size_t bias) {
  const Tensor product = matmul(in[1], in[2], {.transpose_b = op.transpose_w});
  return in.size() > bias ? product + in[bias] : product;
}

Tensors reference(const Forward& op, const Tensors& in) {
  const auto [loss, statistics] = sparse_softmax_cross_entropy_forward(in[0], plain_logits(op, in, forward_inputs));
  return {loss, statistics};
}

Tensors reference(const Backward& op, const Tensors& in) {
  const Tensor logits = plain_logits(op, in, backward_inputs), &x = in[1];
  const Tensor dlogits = sparse_softmax_cross_entropy_backward(in[0], logits, in[3], in[4]);
  Tensors gradients{
      matmul(dlogits, in[2], {.transpose_b = !op.transpose_w}),
      op.transpose_w ? matmul(dlogits, x, {.transpose_a = true}) : matmul(x, dlogits, {.transpose_a = true})};
  if (in.size() > backward_inputs) gradients.push_back(reduce_sum(dlogits, {.axes = 0}));
  return gradients;
}

// The bias, input 3, is kept where there is one.
Keeps keeps(const Forward&, Needs) { return {.inputs = {0, 1, 2, 3}, .outputs = {1}}; }

Gradients gradient(const Forward& op, const Kept& kept, const Tensors& dy, Needs) {
  const bool biased = kept.inputs() > forward_inputs;
  const auto [x, w, bias] = linear_cross_entropy_backward(
      kept.input(0), kept.input(1), kept.input(2), kept.output(1), dy[0],
      {.transpose_w = op.transpose_w, .bias = biased ? kept.input(forward_inputs) : Tensor()});
  return biased ? Gradients{Gradient(), x, w, bias} : Gradients{Gradient(), x, w};
}

// Rows stand apart; what has no rows is summed over them.
BatchStates batch_rule(const Forward&, Inputs in, BatchStates& states, std::int64_t examples) {
  AxisNames names{{0}, {0}, {}};
  if (in.size() > forward_inputs) names.push_back({});
  return named_axes_rule(in, states, examples, names, {{0}, {0}});
}
BatchStates batch_rule(const Backward&, Inputs in, BatchStates& states, std::int64_t examples) {
  AxisNames names{{0}, {0}, {}, {0}, {0}}, gradients{{0}, {}};
  if (in.size() > backward_inputs) names.push_back({}), gradients.push_back({});
  return named_axes_rule(in, states, examples, names, gradients);
}

Tensors apply_biased(const OpInfo& info, const void* op, Tensors in, const Tensor& bias) {
  if (bias.defined()) in.push_back(bias);
  return apply(info, op, std::span<const Tensor>(in.data(), in.size()));
}

}  // namespace

TW_DEFINE_OP(linear_cross_entropy, Forward)
TW_DEFINE_OP(linear_cross_entropy_backward, Backward)

Tensor linear_cross_entropy(const Tensor& labels, const Tensor& x, const Tensor& w, const LinearCrossEntropy& options) {
  constexpr const char* name = "linear_cross_entropy";
  TW_CHECK_USER(x.rank() >= 1, name, "x is [..., size]", "expected x of rank 1 or more, got {}", x.shape());
  DType dtype = promote(name, x.dtype(), w.dtype());
  if (options.bias.defined()) dtype = promote(name, dtype, options.bias.dtype());
  const std::int64_t size = x.shape().last(), rows = x.shape().product(0, x.rank() - 1);
  LinearCrossEntropy inside = options;
  if (options.bias.defined()) inside.bias = cast(options.bias, wide(dtype));
  const Shape losses = x.shape().without(x.rank() - 1);
  TW_CHECK_USER(labels.shape() == losses, name, "there is a label for every row of x",
                "expected labels {} for x {}, got {}", losses, x.shape(), labels.shape());
  const Tensor loss = linear_cross_entropy_forward(reshape(labels, {rows}), cast(reshape(x, {rows, size}), wide(dtype)),
                                                   cast(w, wide(dtype)), inside)
                          .loss;
  return cast(reshape(loss, losses), dtype);
}

CrossEntropyResult linear_cross_entropy_forward(const Tensor& labels, const Tensor& x, const Tensor& w,
                                                const LinearCrossEntropy& options) {
  const Forward op{{options.transpose_w}};
  const Tensors out = apply_biased(linear_cross_entropy_info(), &op, {labels, x, w}, options.bias);
  return {out[0], out[1]};
}

LinearCrossEntropyGradients linear_cross_entropy_backward(const Tensor& labels, const Tensor& x, const Tensor& w,
                                                          const Tensor& statistics, const Tensor& dloss,
                                                          const LinearCrossEntropy& options) {
  const Backward op{{options.transpose_w}};
  const Tensors out =
      apply_biased(linear_cross_entropy_backward_info(), &op, {labels, x, w, statistics, dloss}, options.bias);
  return {out[0], out[1], out.size() > 2 ? out[2] : Tensor()};
}

}  // namespace thalweg
