#include "thalweg/ops/group_norm/group_norm.h"

#include "thalweg/backend/cpu/kernels/group_norm.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/group_norm/gradients.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

struct Forward : GroupNorm {};   // x, scale, offset -> y, mean, rstd
struct Backward : GroupNorm {};  // x, scale, mean, rstd, dy -> dx, dscale, doffset
TW_FIELDS(Forward, groups, epsilon)
TW_FIELDS(Backward, groups, epsilon)

Specs infer(const Forward& op, Inputs in) {
  const Spec group{wide(in[0].dtype), Shape{in[0].shape[0], op.groups}};  // x may be 16-bit where the rest is f32
  return {in[0], group, group};
}
Specs infer(const Backward&, Inputs in) { return {in[0], in[1], in[1]}; }

std::int64_t scratch_bytes(const Spec& x) {
  return static_cast<std::int64_t>(cpu::group_norm_workspace(x.shape[0], x.shape.last())) * size_of(wide(x.dtype));
}
std::int64_t workspace(const Forward&, Inputs in) { return scratch_bytes(in[0]); }
std::int64_t workspace(const Backward&, Inputs in) { return scratch_bytes(in[0]); }

void run(const Forward& op, Arrays in, Arrays out, Scratch scratch) {
  const Shape& x = in[0].shape();
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    cpu::group_norm_kernels<S>().forward({.batch = x[0],
                                          .spatial = x.product(1, x.rank() - 1),
                                          .groups = op.groups,
                                          .group_size = x.last() / op.groups,
                                          .epsilon = static_cast<T>(op.epsilon),
                                          .x = in[0].as<const S>(),
                                          .scale = in[1].as<const T>(),
                                          .offset = in[2].as<const T>(),
                                          .y = out[0].as<S>(),
                                          .mean = out[1].as<T>(),
                                          .rstd = out[2].as<T>(),
                                          .workspace = reinterpret_cast<T*>(scratch.data())});
  });
}

void run(const Backward& op, Arrays in, Arrays out, Scratch scratch) {
  const Shape& x = in[0].shape();
  cpu::with_float_type(in[0].dtype(), [&]<class S>(TypeTag<S>) {
    using T = cpu::Wide<S>;
    cpu::group_norm_kernels<S>().gradient({.batch = x[0],
                                           .spatial = x.product(1, x.rank() - 1),
                                           .groups = op.groups,
                                           .group_size = x.last() / op.groups,
                                           .x = in[0].as<const S>(),
                                           .scale = in[1].as<const T>(),
                                           .mean = in[2].as<const T>(),
                                           .rstd = in[3].as<const T>(),
                                           .dy = in[4].as<const S>(),
                                           .dx = out[0].as<S>(),
                                           .dscale = out[1].as<T>(),
                                           .doffset = out[2].as<T>(),
                                           .workspace = reinterpret_cast<T*>(scratch.data())});
  });
}

// x as [batch, spatial, groups, channels of a group], and what follows from it in plain ops.
struct Plain {
  Ints sizes, shared;  // of x, and of scale against it
  Tensor mean, rstd, normed;

  Plain(const GroupNorm& op, const Tensor& x) {
    const Shape& shape = x.shape();
    sizes = {shape[0], shape.product(1, shape.rank() - 1), op.groups, shape.last() / op.groups};
    shared = {1, 1, sizes[2], sizes[3]};
    const Tensor grouped = reshape(x, sizes);
    const auto found = moments(grouped, per_group);
    mean = found.mean;
    rstd = rsqrt(found.variance + op.epsilon);
    normed = (grouped - mean) * rstd;
  }
  static const Reduce per_group, per_channel;
};
const Reduce Plain::per_group{.axes = {1, 3}, .keepdims = true}, Plain::per_channel{.axes = {0, 1}};

Tensors reference(const Forward& op, const Tensors& in) {
  const Plain plain(op, in[0]);
  const Tensor y = plain.normed * reshape(in[1], plain.shared) + reshape(in[2], plain.shared);
  const Ints groups{plain.sizes[0], plain.sizes[2]};
  return {reshape(y, in[0].shape()), reshape(plain.mean, groups), reshape(plain.rstd, groups)};
}

// Finds the statistics anew, so that derivatives by x are complete without those by mean and rstd.
Tensors reference(const Backward& op, const Tensors& in) {
  const Plain plain(op, in[0]);
  const Tensor dy = reshape(in[4], plain.sizes), dnormed = dy * reshape(in[1], plain.shared);
  const Tensor along = plain.normed * reduce_mean(dnormed * plain.normed, Plain::per_group);
  const Tensor dx = plain.rstd * (dnormed - reduce_mean(dnormed, Plain::per_group) - along);
  return {reshape(dx, in[0].shape()), reshape(reduce_sum(dy * plain.normed, Plain::per_channel), in[1].shape()),
          reshape(reduce_sum(dy, Plain::per_channel), in[1].shape())};
}

Keeps keeps(const Forward&, Needs) { return {.inputs = {0, 1}, .outputs = {1, 2}}; }
Gradients gradient(const Forward& op, const Kept& kept, const Tensors& dy, Needs) {
  const auto [x, scale, offset] =
      group_norm_backward(kept.input(0), kept.input(1), kept.output(1), kept.output(2), dy[0], op);
  return {x, scale, offset};
}

void check(const Spec& x, const Shape& scale, const Shape& offset, const GroupNorm& options) {
  constexpr const char* op = "group_norm";
  TW_CHECK_USER(is_float(x.dtype), op, "tw::cast(x, tw::f32)",
                "expected a float dtype, since the results are fractions, got {}", x.dtype);
  TW_CHECK_USER(x.rank() >= 2, op, "x is [batch, spatial…, channels]", "expected x of rank 2 or more, got {}", x.shape);
  TW_CHECK_USER(x.shape.product(1, x.rank()) > 0, op, "an image has at least one pixel and one channel",
                "expected images with values, got {}", x.shape);
  TW_CHECK_USER(
      options.groups >= 1 && x.shape.last() % options.groups == 0, op, "the channels must be a multiple of groups",
      "expected groups that divide the {} channels of x {}, got {} groups", x.shape.last(), x.shape, options.groups);
  TW_CHECK_USER(scale == Shape{x.shape.last()} && offset == scale, op,
                "scale and offset have an entry for every channel",
                "expected scale and offset [{}] for x {}, got {} and {}", x.shape.last(), x.shape, scale, offset);
  TW_CHECK_USER(options.epsilon >= 0, op, "epsilon keeps the root from 0: 1e-3",
                "expected an epsilon of at least 0, got {}", options.epsilon);
}

BatchStates batch_rule(const Forward&, Inputs in, BatchStates& states, std::int64_t examples) {
  return named_axes_rule(in, states, examples, {{0}, {}, {}}, {{0}, {0}, {0}});
}
BatchStates batch_rule(const Backward&, Inputs in, BatchStates& states, std::int64_t examples) {
  return named_axes_rule(in, states, examples, {{0}, {}, {0}, {0}, {0}}, {{0}, {}, {}});
}

}  // namespace

TW_DEFINE_OP(group_norm, Forward)
TW_DEFINE_OP(group_norm_backward, Backward)

GroupNormGradients group_norm_backward(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                                       const Tensor& dy, const GroupNorm& options) {
  const Tensors out = apply(group_norm_backward_info(), Backward{options}, {x, scale, mean, rstd, dy});
  return {out[0], out[1], out[2]};
}

Tensor group_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const GroupNorm& options) {
  check_defined("group_norm", x, scale, offset);
  check(x.spec(), scale.shape(), offset.shape(), options);
  const DType dtype = promote("group_norm", promote("group_norm", x.dtype(), scale.dtype()), offset.dtype()),
              inside = wide(dtype);
  const Tensors out =
      apply(group_norm_info(), Forward{options}, {cast(x, inside), cast(scale, inside), cast(offset, inside)});
  return cast(out[0], dtype);
}

}  // namespace thalweg
