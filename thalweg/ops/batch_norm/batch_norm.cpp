#include "thalweg/ops/batch_norm/batch_norm.h"

#include "thalweg/backend/cpu/kernels/batch_norm.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_norm/gradients.h"
#include "thalweg/ops/batch_norm/run.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/tile/tile.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

struct Forward : BatchNorm {};   // x, scale, offset -> y, mean, variance, rstd
struct Backward : BatchNorm {};  // x, scale, mean, rstd, dy -> dx, dscale, doffset
TW_FIELDS(Forward, epsilon)
TW_FIELDS(Backward, epsilon)

Specs infer(const Forward&, Inputs in) {
  constexpr const char* op = "batch_norm";
  TW_CHECK_USER(is_float(in[0].dtype), op, "tw::cast(x, tw::f32)",
                "expected a float dtype, since the results are fractions, got {}", in[0].dtype);
  TW_CHECK_USER(in[0].rank() >= 1 && in[0].size() > 0, op, "x is [..., channels]; a mean needs at least one row",
                "expected x with values, got {}", in[0].shape);
  const Shape channels{in[0].shape.last()};
  TW_CHECK_USER(
      in[1].shape == channels && in[2].shape == channels, op, "scale and offset have an entry for every channel",
      "expected scale and offset {} for x {}, got {} and {}", channels, in[0].shape, in[1].shape, in[2].shape);
  return {in[0], in[1], in[1], in[1]};
}
Specs infer(const Backward&, Inputs in) { return {in[0], in[1], in[1]}; }

std::int64_t rows_of(const Shape& x) { return x.product(0, x.rank() - 1); }

std::int64_t workspace(const Forward&, Inputs in) { return batch_norm_workspace(in[0]); }
std::int64_t workspace(const Backward&, Inputs in) { return batch_norm_workspace(in[0]); }

void run(const Forward& op, Arrays in, Arrays out, Scratch scratch) {
  run_batch_norm(op.epsilon, false, in, out, scratch);
}
void run(const Backward&, Arrays in, Arrays out, Scratch scratch) { run_batch_norm_backward(in, out, scratch); }

Reduce over_rows(const Tensor& x) {
  Ints axes;
  for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
  return {.axes = axes};
}

Tensors reference(const Forward& op, const Tensors& in) {
  const auto [mean, variance] = moments(in[0], over_rows(in[0]));
  const Tensor rstd = rsqrt(variance + op.epsilon);
  return {(in[0] - mean) * rstd * in[1] + in[2], mean, variance, rstd};
}

// Finds the statistics anew, so that derivatives by x are complete without those by mean and rstd.
Tensors reference(const Backward& op, const Tensors& in) {
  const Reduce rows = over_rows(in[0]);
  const auto [mean, variance] = moments(in[0], rows);
  const Tensor rstd = rsqrt(variance + op.epsilon), normed = (in[0] - mean) * rstd, &dy = in[4];
  const Tensor along = dy - reduce_mean(dy, rows) - normed * reduce_mean(dy * normed, rows);
  return {in[1] * rstd * along, reduce_sum(dy * normed, rows), reduce_sum(dy, rows)};
}

Keeps keeps(const Forward&, Needs) { return {.inputs = {0, 1}, .outputs = {1, 3}}; }

Gradients gradient(const Forward& op, const Kept& kept, const Tensors& dy, Needs needs) {
  const Tensor x = kept.input(0), mean = kept.output(1);
  Gradients result(3);
  if (dy[0].defined()) {
    const auto from_y = batch_norm_backward(x, kept.input(1), mean, kept.output(3), dy[0], op.epsilon);
    result = {from_y.x, from_y.scale, from_y.offset};
  }
  if (!needs[0]) return result;
  const auto share = 1.0 / static_cast<double>(rows_of(x.shape()));
  const auto add_to_x = [&](const Tensor& more) { result[0] = result[0].defined() ? result[0].dense() + more : more; };
  if (dy[1].defined()) add_to_x(broadcast_to(dy[1] * share, x.shape()));
  if (dy[2].defined()) add_to_x((x - mean) * (dy[2] * (2 * share)));
  return result;
}

}  // namespace

TW_DEFINE_OP(batch_norm, Forward)
TW_DEFINE_OP(batch_norm_backward, Backward)

std::int64_t batch_norm_workspace(const Spec& x) {
  return static_cast<std::int64_t>(cpu::batch_norm_workspace(rows_of(x.shape), x.shape.last())) *
         size_of(wide(x.dtype));
}

void run_batch_norm(double epsilon, bool relu, Arrays in, Arrays out, Scratch scratch) {
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    cpu::batch_norm_kernels<S>().forward({.rows = rows_of(in[0].shape()),
                                          .channels = in[0].shape().last(),
                                          .epsilon = static_cast<T>(epsilon),
                                          .x = in[0].as<const S>(),
                                          .scale = in[1].as<const T>(),
                                          .offset = in[2].as<const T>(),
                                          .y = out[0].as<S>(),
                                          .mean = out[1].as<T>(),
                                          .variance = out[2].as<T>(),
                                          .rstd = out[3].as<T>(),
                                          .workspace = reinterpret_cast<T*>(scratch.data()),
                                          .relu = relu,
                                          .residual = in.size() > 3 ? in[3].as<const S>() : nullptr});
  });
}

void run_batch_norm_backward(Arrays in, Arrays out, Scratch scratch) {
  const bool relu = in.size() > 5;
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    cpu::batch_norm_kernels<S>().gradient({.rows = rows_of(in[0].shape()),
                                           .channels = in[0].shape().last(),
                                           .x = in[0].as<const S>(),
                                           .scale = in[1].as<const T>(),
                                           .mean = in[2].as<const T>(),
                                           .rstd = in[3].as<const T>(),
                                           .dy = in[4].as<const S>(),
                                           .dx = out[0].as<S>(),
                                           .dscale = out[1].as<T>(),
                                           .doffset = out[2].as<T>(),
                                           .workspace = reinterpret_cast<T*>(scratch.data()),
                                           .relu = relu,
                                           .offset = relu ? in[5].as<const T>() : nullptr});
  });
}

BatchNormGradients batch_norm_backward(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                                       const Tensor& dy, double epsilon) {
  const Tensors out = apply(batch_norm_backward_info(), Backward{{epsilon}}, {x, scale, mean, rstd, dy});
  return {out[0], out[1], out[2]};
}

BatchNormResult batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const BatchNorm& options) {
  check_defined("batch_norm", x, scale, offset);
  const DType dtype = promote("batch_norm", promote("batch_norm", x.dtype(), scale.dtype()), offset.dtype()),
              inside = wide(dtype);
  const Tensors out =
      apply(batch_norm_info(), Forward{options}, {cast(x, inside), cast(scale, inside), cast(offset, inside)});
  return {cast(out[0], dtype), cast(out[1], dtype), cast(out[2], dtype)};
}

}  // namespace thalweg
