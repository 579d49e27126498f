#include "thalweg/ops/batch_norm_relu/batch_norm_relu.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/batch_norm/run.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

struct Forward : BatchNorm {};   // x, scale, offset [, residual] -> z, mean, variance, rstd
struct Backward : BatchNorm {};  // x, scale, offset, mean, rstd, dz -> dx, dscale, doffset
TW_FIELDS(Forward, epsilon)
TW_FIELDS(Backward, epsilon)

// dx may stand where x or dz does; the other results are written last.
[[maybe_unused]] bool in_place(const Backward&) { return true; }

// Inputs 1 … vectors belong to the channels of x, one behind them is as x.
void check_inputs(const char* op, Inputs in, int vectors) {
  TW_CHECK_INTERNAL(is_float(in[0].dtype) && in[0].rank() >= 1 && in[0].size() > 0, op, "x {}", in[0].shape);
  const Spec channels{wide(in[0].dtype), {in[0].shape.last()}};
  for (int i = 1; i < in.size(); ++i)
    TW_CHECK_INTERNAL(in[i] == (i <= vectors ? channels : in[0]), op, "input {} {} for x {}", i, in[i].shape,
                      in[0].shape);
}

Specs infer(const Forward&, Inputs in) {
  check_inputs("batch_norm_relu", in, 2);
  return {in[0], in[1], in[1], in[1]};
}
Specs infer(const Backward&, Inputs in) {
  check_inputs("batch_norm_relu_backward", in, 4);
  return {in[0], in[1], in[1]};
}

std::int64_t workspace(const Forward&, Inputs in) { return batch_norm_workspace(in[0]); }
std::int64_t workspace(const Backward&, Inputs in) { return batch_norm_workspace(in[0]); }

void run(const Forward& op, Arrays in, Arrays out, Scratch scratch) {
  run_batch_norm(op.epsilon, true, in, out, scratch);
}
void run(const Backward&, Arrays in, Arrays out, Scratch scratch) {
  const Array ordered[] = {in[0], in[1], in[3], in[4], in[5], in[2]};
  run_batch_norm_backward(ordered, out, scratch);
}

Tensors reference(const Forward& op, const Tensors& in) {
  const auto [y, mean, variance] = batch_norm(in[0], in[1], in[2], op);
  return {relu(in.size() > 3 ? in[3] + y : y), mean, variance, rsqrt(variance + op.epsilon)};
}

Tensors reference(const Backward& op, const Tensors& in) {
  const Tensor y = batch_norm(in[0], in[1], in[2], op).y;
  const auto [x, scale, offset] = batch_norm_backward(in[0], in[1], in[3], in[4], where(y > 0, in[5], 0), op.epsilon);
  return {x, scale, offset};
}

}  // namespace

TW_DEFINE_OP(batch_norm_relu, Forward)
TW_DEFINE_OP(batch_norm_relu_backward, Backward)

BatchNormReluResult batch_norm_relu(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& residual,
                                    const BatchNorm& options) {
  const OpInfo& info = batch_norm_relu_info();
  const Forward op{options};
  const Tensors out =
      residual.defined() ? apply(info, op, {x, scale, offset, residual}) : apply(info, op, {x, scale, offset});
  return {out[0], out[1], out[2], out[3]};
}

BatchNormGradients batch_norm_relu_backward(const Tensor& x, const Tensor& scale, const Tensor& offset,
                                            const Tensor& mean, const Tensor& rstd, const Tensor& dz,
                                            const BatchNorm& options) {
  const Tensors out = apply(batch_norm_relu_backward_info(), Backward{options}, {x, scale, offset, mean, rstd, dz});
  return {out[0], out[1], out[2]};
}

}  // namespace thalweg
