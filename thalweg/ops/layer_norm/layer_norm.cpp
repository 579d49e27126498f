#include "thalweg/ops/layer_norm/layer_norm.h"

#include "thalweg/backend/cpu/kernels/row_norms.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/layer_norm/gradients.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

// All over the last axis. rstd = 1 / sqrt(variance + epsilon).
struct Layer : LayerNorm {};          // x, scale, offset -> y, mean, rstd
struct LayerBackward : LayerNorm {};  // x, scale, mean, rstd, dy -> dx, dscale, doffset
struct Rms : RmsNorm {};              // x, scale -> y, rstd
struct RmsBackward : RmsNorm {};      // x, scale, rstd, dy -> dx, dscale
TW_FIELDS(Layer, epsilon)
TW_FIELDS(LayerBackward, epsilon)
TW_FIELDS(Rms, epsilon)
TW_FIELDS(RmsBackward, epsilon)

// x and dy may be 16-bit where the rest is f32.
Spec row_spec(const Spec& x) { return {wide(x.dtype), x.shape.without(x.rank() - 1)}; }

Specs infer(const Layer&, Inputs in) { return {in[0], row_spec(in[0]), row_spec(in[0])}; }
Specs infer(const LayerBackward&, Inputs in) { return {in[0], in[1], in[1]}; }
Specs infer(const Rms&, Inputs in) { return {in[0], row_spec(in[0])}; }
Specs infer(const RmsBackward&, Inputs in) { return {in[0], in[1]}; }

std::int64_t rows_of(const Shape& x) { return x.product(0, x.rank() - 1); }

void run(const Layer& op, Arrays in, Arrays out) {
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    cpu::row_norm_kernels<S>().layer_norm({.rows = rows_of(in[0].shape()),
                                           .n = in[0].shape().last(),
                                           .epsilon = static_cast<T>(op.epsilon),
                                           .x = in[0].as<const S>(),
                                           .scale = in[1].as<const T>(),
                                           .offset = in[2].as<const T>(),
                                           .y = out[0].as<S>(),
                                           .mean = out[1].as<T>(),
                                           .rstd = out[2].as<T>()});
  });
}

void run(const Rms& op, Arrays in, Arrays out) {
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    cpu::row_norm_kernels<S>().rms_norm({.rows = rows_of(in[0].shape()),
                                         .n = in[0].shape().last(),
                                         .epsilon = static_cast<T>(op.epsilon),
                                         .x = in[0].as<const S>(),
                                         .scale = in[1].as<const T>(),
                                         .offset = nullptr,
                                         .y = out[0].as<S>(),
                                         .mean = nullptr,
                                         .rstd = out[1].as<T>()});
  });
}

std::int64_t gradient_workspace(const Spec& x) {
  return static_cast<std::int64_t>(cpu::row_norm_gradient_workspace(rows_of(x.shape), x.shape.last())) *
         size_of(wide(x.dtype));
}
std::int64_t workspace(const LayerBackward&, Inputs in) { return gradient_workspace(in[0]); }
std::int64_t workspace(const RmsBackward&, Inputs in) { return gradient_workspace(in[0]); }

void run_rows(const LayerBackward&, Arrays in, Arrays out, Scratch scratch, const OnRegion* done) {
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    cpu::row_norm_kernels<S>().layer_norm_gradient({.rows = rows_of(in[0].shape()),
                                                    .n = in[0].shape().last(),
                                                    .x = in[0].as<const S>(),
                                                    .scale = in[1].as<const T>(),
                                                    .mean = in[2].as<const T>(),
                                                    .rstd = in[3].as<const T>(),
                                                    .dy = in[4].as<const S>(),
                                                    .dx = out[0].as<S>(),
                                                    .dscale = out[1].as<T>(),
                                                    .doffset = out[2].as<T>(),
                                                    .workspace = reinterpret_cast<T*>(scratch.data()),
                                                    .done = done});
  });
}

void run_rows(const RmsBackward&, Arrays in, Arrays out, Scratch scratch, const OnRegion* done) {
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    cpu::row_norm_kernels<S>().rms_norm_gradient({.rows = rows_of(in[0].shape()),
                                                  .n = in[0].shape().last(),
                                                  .x = in[0].as<const S>(),
                                                  .scale = in[1].as<const T>(),
                                                  .mean = nullptr,
                                                  .rstd = in[2].as<const T>(),
                                                  .dy = in[3].as<const S>(),
                                                  .dx = out[0].as<S>(),
                                                  .dscale = out[1].as<T>(),
                                                  .doffset = nullptr,
                                                  .workspace = reinterpret_cast<T*>(scratch.data()),
                                                  .done = done});
  });
}

void run(const LayerBackward& op, Arrays in, Arrays out, Scratch scratch) { run_rows(op, in, out, scratch, nullptr); }
void run(const RmsBackward& op, Arrays in, Arrays out, Scratch scratch) { run_rows(op, in, out, scratch, nullptr); }
void run_by_regions(const LayerBackward& op, Arrays in, Arrays out, Scratch scratch, OnRegion done) {
  run_rows(op, in, out, scratch, &done);
}
void run_by_regions(const RmsBackward& op, Arrays in, Arrays out, Scratch scratch, OnRegion done) {
  run_rows(op, in, out, scratch, &done);
}

const Reduce last_axis{.axes = -1, .keepdims = true};

Tensor without_last(const Tensor& x) { return reshape(x, x.shape().without(x.rank() - 1)); }

// Sums everything but the last axis: the gradient of a vector that all rows share.
Tensor sum_rows(const Tensor& x) {
  Ints axes;
  for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
  return reduce_sum(x, {.axes = axes});
}

// dx of y = normed * scale where normed = (x - mean) rstd; `centered`: the mean depends on x.
Tensor input_gradient(const Tensor& normed, const Tensor& rstd, const Tensor& dnormed, bool centered) {
  const Tensor along = dnormed - normed * reduce_mean(dnormed * normed, last_axis);
  return rstd * (centered ? along - reduce_mean(dnormed, last_axis) : along);
}

Tensors reference(const Layer& op, const Tensors& in) {
  const auto [mean, variance] = moments(in[0], last_axis);
  const Tensor rstd = rsqrt(variance + op.epsilon);
  return {(in[0] - mean) * rstd * in[1] + in[2], without_last(mean), without_last(rstd)};
}
Tensors reference(const Rms& op, const Tensors& in) {
  const Tensor rstd = rsqrt(reduce_mean(square(in[0]), last_axis) + op.epsilon);
  return {in[0] * rstd * in[1], without_last(rstd)};
}
// These find the statistics anew, so that derivatives by x are complete without those by mean and rstd.
Tensors reference(const LayerBackward& op, const Tensors& in) {
  const auto [mean, variance] = moments(in[0], last_axis);
  const Tensor rstd = rsqrt(variance + op.epsilon), normed = (in[0] - mean) * rstd;
  return {input_gradient(normed, rstd, in[4] * in[1], true), sum_rows(in[4] * normed), sum_rows(in[4])};
}
Tensors reference(const RmsBackward& op, const Tensors& in) {
  const Tensor rstd = rsqrt(reduce_mean(square(in[0]), last_axis) + op.epsilon), normed = in[0] * rstd;
  return {input_gradient(normed, rstd, in[3] * in[1], false), sum_rows(in[3] * normed)};
}

Keeps keeps(const Layer&, Needs) { return {.inputs = {0, 1}, .outputs = {1, 2}}; }
Keeps keeps(const Rms&, Needs) { return {.inputs = {0, 1}, .outputs = {1}}; }

Gradients gradient(const Layer& op, const Kept& kept, const Tensors& dy, Needs) {
  const auto [x, scale, offset] =
      layer_norm_backward(kept.input(0), kept.input(1), kept.output(1), kept.output(2), dy[0], op.epsilon);
  return {x, scale, offset};
}
Gradients gradient(const Rms& op, const Kept& kept, const Tensors& dy, Needs) {
  const auto [x, scale] = rms_norm_backward(kept.input(0), kept.input(1), kept.output(1), dy[0], op.epsilon);
  return {x, scale};
}

void check(const char* op, const Tensor& x, const Tensor& scale, double epsilon) {
  const int rank = scale.rank();
  TW_CHECK_USER(is_float(x.dtype()), op, "tw::cast(x, tw::f32)",
                "expected a float dtype, since the results are fractions, got {}", x.dtype());
  TW_CHECK_USER(rank >= 1 && rank <= x.rank() && x.shape().suffix(x.rank() - rank) == scale.shape() && scale.size() > 0,
                op, "scale has the sizes of the last axis of x, or of the last few",
                "expected a scale that fits the end of x {}, got {}", x.shape(), scale.shape());
  TW_CHECK_USER(epsilon >= 0, op, "epsilon keeps the root from 0: 1e-5", "expected an epsilon of at least 0, got {}",
                epsilon);
}

// The axes of scale as one, and those before it as they are.
Tensor flat_rows(const Tensor& x, const Tensor& scale) {
  Ints sizes(std::span(x.shape().begin(), static_cast<std::size_t>(x.rank() - scale.rank())));
  sizes.push_back(scale.size());
  return reshape(x, sizes);
}

Tensor flat(const Tensor& x, DType dtype) { return cast(x.rank() == 1 ? x : reshape(x, {x.size()}), dtype); }

BatchStates batch_rule(const Layer&, Inputs in, BatchStates& states, std::int64_t examples) {
  const Ints rows = first_axes(in[0].rank() - 1);
  return named_axes_rule(in, states, examples, {rows, {}, {}}, {rows, rows, rows});
}
BatchStates batch_rule(const LayerBackward&, Inputs in, BatchStates& states, std::int64_t examples) {
  const Ints rows = first_axes(in[0].rank() - 1);
  return named_axes_rule(in, states, examples, {rows, {}, rows, rows, rows}, {rows, {}, {}});
}
BatchStates batch_rule(const Rms&, Inputs in, BatchStates& states, std::int64_t examples) {
  const Ints rows = first_axes(in[0].rank() - 1);
  return named_axes_rule(in, states, examples, {rows, {}}, {rows, rows});
}
BatchStates batch_rule(const RmsBackward&, Inputs in, BatchStates& states, std::int64_t examples) {
  const Ints rows = first_axes(in[0].rank() - 1);
  return named_axes_rule(in, states, examples, {rows, {}, rows, rows}, {rows, {}});
}

}  // namespace

TW_DEFINE_OP(layer_norm, Layer)
TW_DEFINE_OP(layer_norm_backward, LayerBackward)
TW_DEFINE_OP(rms_norm, Rms)
TW_DEFINE_OP(rms_norm_backward, RmsBackward)

LayerNormGradients layer_norm_backward(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                                       const Tensor& dy, double epsilon) {
  const Tensors out = apply(layer_norm_backward_info(), LayerBackward{{epsilon}}, {x, scale, mean, rstd, dy});
  return {out[0], out[1], out[2]};
}

RmsNormGradients rms_norm_backward(const Tensor& x, const Tensor& scale, const Tensor& rstd, const Tensor& dy,
                                   double epsilon) {
  const Tensors out = apply(rms_norm_backward_info(), RmsBackward{{epsilon}}, {x, scale, rstd, dy});
  return {out[0], out[1]};
}

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const LayerNorm& options) {
  check_defined("layer_norm", x, scale, offset);
  check("layer_norm", x, scale, options.epsilon);
  TW_CHECK_USER(offset.shape() == scale.shape(), "layer_norm", "scale and offset have one shape",
                "expected an offset {} like the scale, got {}", scale.shape(), offset.shape());
  const DType dtype = promote("layer_norm", promote("layer_norm", x.dtype(), scale.dtype()), offset.dtype()),
              inside = wide(dtype);
  const Tensors out = apply(layer_norm_info(), Layer{options},
                            {cast(flat_rows(x, scale), inside), flat(scale, inside), flat(offset, inside)});
  return cast(reshape(out[0], x.shape()), dtype);
}

Tensor rms_norm(const Tensor& x, const Tensor& scale, const RmsNorm& options) {
  check_defined("rms_norm", x, scale);
  check("rms_norm", x, scale, options.epsilon);
  const DType dtype = promote("rms_norm", x.dtype(), scale.dtype()), inside = wide(dtype);
  const Tensors out = apply(rms_norm_info(), Rms{options}, {cast(flat_rows(x, scale), inside), flat(scale, inside)});
  return cast(reshape(out[0], x.shape()), dtype);
}

}  // namespace thalweg
