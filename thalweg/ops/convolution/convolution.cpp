// Convolution is linear in each operand. With its two transposes it forms a closed family: each one's gradients are the
// other two, so that derivatives of any order need no other rule.
#include "thalweg/ops/convolution/convolution.h"

#include <atomic>

#include "thalweg/backend/cpu/convolution.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/convolution/gradients.h"
#include "thalweg/ops/convolution/strict.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/widen.h"
#include "thalweg/ops/window.h"

namespace thalweg {
namespace config {
namespace {
std::atomic<bool> strict{false};
}  // namespace

void strict_convolutions(bool value) { strict = value; }
bool strict_convolutions() { return strict; }

}  // namespace config

namespace {

// What the three have in common. Lists are as the caller gave them.
struct Geometry {
  int spatial;
  Convolution options;
  bool strict = config::strict_convolutions();
};

struct Forward : Geometry {};  // x, w -> y
struct BackwardData : Geometry {
  Ints input;  // spatial sizes of x
};             // y, w -> x
struct BackwardWeights : Geometry {
  Ints kernel;               // spatial sizes of w
  bool wide_result = false;  // of 16-bit operands: the sums in f32, as they are
};                           // x, y -> w
TW_FIELDS(Forward, spatial, options.strides, options.padding, options.dilations, options.groups, strict)
TW_FIELDS(BackwardData, spatial, options.strides, options.padding, options.dilations, options.groups, strict, input)
TW_FIELDS(BackwardWeights, spatial, options.strides, options.padding, options.dilations, options.groups, strict, kernel,
          wide_result)

constexpr const char* forward_names[] = {"conv1d", "conv2d", "conv3d"};
constexpr const char* transpose_names[] = {"conv1d_transpose", "conv2d_transpose", "conv3d_transpose"};

Ints middle(const Shape& shape, int from, int count) {
  return Ints(std::span(shape.begin() + from, static_cast<std::size_t>(count)));
}

void check_rank(const char* op, const char* what, const Spec& spec, int spatial) {
  TW_CHECK_USER(
      spec.rank() == spatial + 2, op,
      "images are [batch, spatial…, channels], kernels [taps…, in / groups, out]; tw::expand_dims adds an axis",
      "expected {} of rank {}, got {}", what, spatial + 2, spec.shape);
  TW_CHECK_USER(spec.dtype != u8 && spec.dtype != boolean, op,
                "products of small integers overflow: tw::cast(x, tw::f32)",
                "expected a float dtype, i32 or i64, got {}", spec.dtype);
}

void check_channels(const char* op, std::int64_t in, std::int64_t out, const Shape& w, std::int64_t groups) {
  TW_CHECK_USER(groups >= 1 && in % groups == 0 && out % groups == 0, op,
                "both numbers of channels must be multiples of groups",
                "expected groups that divide {} input and {} output channels, got {}", in, out, groups);
  const std::int64_t expected = in / groups, found = w[w.rank() - 2];
  TW_CHECK_USER(expected == found, op, "the last axis but one of the kernel is the input's channels over groups",
                "expected a kernel for {} input channels (of {} in {} groups), got {} in {}", expected, in, groups,
                found, w);
}

// The whole convolution from the shapes of x and w.
cpu::Convolution describe(const char* op, const Geometry& geometry, DType dtype, const Shape& x, const Shape& w) {
  const int spatial = geometry.spatial;
  const auto& [strides, padding, dilations, groups] = geometry.options;
  check_channels(op, x.last(), w.last(), w, groups);
  const Window window = make_window(op, middle(x, 1, spatial), middle(w, 0, spatial), {strides, dilations, padding});
  cpu::Convolution c{.dtype = dtype,
                     .spatial = spatial,
                     .batch = x[0],
                     .in_channels = x.last(),
                     .out_channels = w.last(),
                     .groups = groups,
                     .strict = geometry.strict};
  for (std::size_t i = 0; i < static_cast<std::size_t>(spatial); ++i) {
    c.input[i] = window[i].input, c.kernel[i] = window[i].taps, c.output[i] = window[i].output;
    c.stride[i] = window[i].stride, c.dilation[i] = window[i].dilation;
    c.pad_before[i] = window[i].pad_before, c.pad_after[i] = window[i].pad_after;
  }
  return c;
}

Shape with_ends(std::int64_t first, const Ints& sizes, std::int64_t last) {
  Ints shape{first};
  for (auto size : sizes) shape.push_back(size);
  shape.push_back(last);
  return Shape(shape);
}

Shape output_shape_of(const cpu::Convolution& c) {
  return with_ends(c.batch, Ints(std::span(c.output.data(), static_cast<std::size_t>(c.spatial))), c.out_channels);
}

// The shapes that are no operand of the transposes.
Shape x_shape(const BackwardData& op, const Shape& y, const Shape& w) {
  return with_ends(y[0], op.input, w[op.spatial] * op.options.groups);
}
Shape w_shape(const BackwardWeights& op, const Shape& x, const Shape& y) {
  Ints shape = op.kernel;
  shape.push_back(x.last() / op.options.groups);
  shape.push_back(y.last());
  return Shape(shape);
}

cpu::Convolution describe(const Forward& op, DType dtype, const Shape& x, const Shape& w) {
  return describe(forward_names[op.spatial - 1], op, dtype, x, w);
}
cpu::Convolution describe(const BackwardData& op, DType dtype, const Shape& y, const Shape& w) {
  return describe(transpose_names[op.spatial - 1], op, dtype, x_shape(op, y, w), w);
}
cpu::Convolution describe(const BackwardWeights& op, DType dtype, const Shape& x, const Shape& y) {
  cpu::Convolution c = describe(forward_names[op.spatial - 1], op, dtype, x, w_shape(op, x, y));
  c.wide_gradient = op.wide_result;
  return c;
}

Specs infer(const Forward& op, Inputs in) {
  const char* name = forward_names[op.spatial - 1];
  check_rank(name, "x", in[0], op.spatial);
  check_rank(name, "a kernel", in[1], op.spatial);
  return {Spec{in[0].dtype, output_shape_of(describe(op, in[0].dtype, in[0].shape, in[1].shape))}};
}

Specs infer(const BackwardData& op, Inputs in) {
  const char* name = transpose_names[op.spatial - 1];
  check_rank(name, "x", in[0], op.spatial);
  check_rank(name, "a kernel", in[1], op.spatial);
  const Shape expected = output_shape_of(describe(op, in[0].dtype, in[0].shape, in[1].shape));
  const Shape x = x_shape(op, in[0].shape, in[1].shape);
  TW_CHECK_USER(expected == in[0].shape, name, "x must have the shape that the convolution of output_shape gives",
                "expected x {} for an output {} and a kernel {}, got {}", expected, x, in[1].shape, in[0].shape);
  return {Spec{in[0].dtype, x}};
}

Specs infer(const BackwardWeights& op, Inputs in) {
  const Shape expected = output_shape_of(describe(op, in[0].dtype, in[0].shape, in[1].shape));
  TW_CHECK_INTERNAL(expected == in[1].shape, "convolution_backward_weights", "expected a gradient {}, got {}", expected,
                    in[1].shape);
  const DType dtype = op.wide_result ? wide(in[0].dtype) : in[0].dtype;
  return {Spec{dtype, w_shape(op, in[0].shape, in[1].shape)}};
}

std::size_t workspace_of(const Forward&, const cpu::Convolution& c) { return cpu::convolution_forward_workspace(c); }
std::size_t workspace_of(const BackwardData&, const cpu::Convolution& c) {
  return cpu::convolution_backward_data_workspace(c);
}
std::size_t workspace_of(const BackwardWeights&, const cpu::Convolution& c) {
  return cpu::convolution_backward_weights_workspace(c);
}

// Every element of y takes a product for each tap and channel of its group.
double flops_of(std::int64_t y, const Spec& kernel) {
  const std::int64_t products = kernel.size() / kernel.shape.last();
  return 2 * static_cast<double>(y) * static_cast<double>(products);
}
double flops(const Forward& op, Inputs in) { return flops_of(infer(op, in)[0].size(), in[1]); }
double flops(const BackwardData&, Inputs in) { return flops_of(in[0].size(), in[1]); }
double flops(const BackwardWeights& op, Inputs in) { return flops_of(in[1].size(), infer(op, in)[0]); }

template <class Op>
requires std::derived_from<Op, Geometry> std::int64_t workspace(const Op& op, Inputs in) {
  return static_cast<std::int64_t>(workspace_of(op, describe(op, in[0].dtype, in[0].shape, in[1].shape)));
}

template <class Op>
cpu::Convolution describe(const Op& op, Arrays in) {
  return describe(op, in[0].dtype(), in[0].shape(), in[1].shape());
}

void run(const Forward& op, Arrays in, Arrays out, Scratch scratch) {
  cpu::convolution_forward(describe(op, in), in[0].data, in[1].data, out[0].data, scratch);
}
void run_by_regions(const Forward& op, Arrays in, Arrays out, Scratch scratch, OnRegion done) {
  cpu::convolution_forward(describe(op, in), in[0].data, in[1].data, out[0].data, scratch, &done);
}
void run(const BackwardData& op, Arrays in, Arrays out, Scratch scratch) {
  cpu::convolution_backward_data(describe(op, in), in[0].data, in[1].data, out[0].data, scratch);
}
void run_by_regions(const BackwardData& op, Arrays in, Arrays out, Scratch scratch, OnRegion done) {
  cpu::convolution_backward_data(describe(op, in), in[0].data, in[1].data, out[0].data, scratch, &done);
}
void run(const BackwardWeights& op, Arrays in, Arrays out, Scratch scratch) {
  cpu::convolution_backward_weights(describe(op, in), in[0].data, in[1].data, out[0].data, scratch);
}

Tensor forward(const Geometry& geometry, const Tensor& x, const Tensor& w) {
  return apply(convolution_info(), Forward{geometry}, {x, w})[0];
}
Tensor backward_data(const Geometry& geometry, const Tensor& y, const Tensor& w, const Shape& x) {
  return apply(convolution_backward_data_info(), BackwardData{geometry, middle(x, 1, geometry.spatial)}, {y, w})[0];
}
Tensor backward_weights(const Geometry& geometry, const Tensor& x, const Tensor& y, const Ints& taps) {
  return apply(convolution_backward_weights_info(), BackwardWeights{geometry, taps}, {x, y})[0];
}

// Each is linear in both operands: the gradient of one reads the other.
template <class Op>
requires std::derived_from<Op, Geometry> Keeps keeps(const Op&, Needs needs) {
  Keeps result;
  if (needs[0]) result.inputs.add(1);
  if (needs[1]) result.inputs.add(0);
  return result;
}

Gradients gradient(const Forward& op, const Kept& kept, const Tensors& dy, Needs needs) {
  return {needs[0] ? Gradient(backward_data(op, dy[0], kept.input(1), kept.input_spec(0).shape)) : Gradient(),
          needs[1]
              ? Gradient(backward_weights(op, kept.input(0), dy[0], middle(kept.input_spec(1).shape, 0, op.spatial)))
              : Gradient()};
}

Gradients gradient(const BackwardData& op, const Kept& kept, const Tensors& dx, Needs needs) {
  return {needs[0] ? Gradient(forward(op, dx[0], kept.input(1))) : Gradient(),
          needs[1]
              ? Gradient(backward_weights(op, dx[0], kept.input(0), middle(kept.input_spec(1).shape, 0, op.spatial)))
              : Gradient()};
}

Gradients gradient(const BackwardWeights& op, const Kept& kept, const Tensors& dw, Needs needs) {
  return {needs[0] ? Gradient(backward_data(op, kept.input(1), dw[0], kept.input_spec(0).shape)) : Gradient(),
          needs[1] ? Gradient(forward(op, kept.input(0), dw[0])) : Gradient()};
}

// Both operands in the dtype in which they meet.
Tensor convolve(const Geometry& geometry, const Tensor& x, const Tensor& kernel) {
  const char* name = forward_names[geometry.spatial - 1];
  check_defined(name, x, kernel);
  const DType dtype = promote(name, x.dtype(), kernel.dtype());
  return forward(geometry, cast(x, dtype), cast(kernel, dtype));
}

Tensor transposed(const Geometry& geometry, const Tensor& x, const Tensor& kernel, const Shape& output_shape) {
  const char* name = transpose_names[geometry.spatial - 1];
  check_defined(name, x, kernel);
  const DType dtype = promote(name, x.dtype(), kernel.dtype());
  check_rank(name, "x", x.spec(), geometry.spatial);
  check_rank(name, "a kernel", kernel.spec(), geometry.spatial);
  const std::int64_t channels = kernel.shape()[geometry.spatial] * geometry.options.groups;
  TW_CHECK_USER(output_shape.rank() == x.rank() && output_shape[0] == x.shape()[0] && output_shape.last() == channels,
                name, "output_shape is [batch, spatial…, out], the kernel [taps…, out / groups, in]",
                "expected an output_shape of rank {} with batch {} and {} channels for x {} and a kernel {}, got {}",
                x.rank(), x.shape()[0], channels, x.shape(), kernel.shape(), output_shape);
  return backward_data(geometry, cast(x, dtype), cast(kernel, dtype), output_shape);
}

BatchStates batch_rule(const Forward&, Inputs in, BatchStates& states, std::int64_t examples) {
  return named_axes_rule(in, states, examples, {{0}, {}}, {{0}});
}
BatchStates batch_rule(const BackwardData&, Inputs in, BatchStates& states, std::int64_t examples) {
  return named_axes_rule(in, states, examples, {{0}, {}}, {{0}});
}
BatchStates batch_rule(const BackwardWeights&, Inputs in, BatchStates& states, std::int64_t examples) {
  return named_axes_rule(in, states, examples, {{0}, {0}}, {{}});
}

}  // namespace

TW_DEFINE_OP(convolution, Forward)
TW_DEFINE_OP(convolution_backward_data, BackwardData)
TW_DEFINE_OP(convolution_backward_weights, BackwardWeights)

Tensor convolution_backward_weights(const Tensor& x, const Tensor& dy, const Ints& taps, const Convolution& options) {
  return backward_weights({taps.size(), options}, x, dy, taps);
}

Tensor conv1d(const Tensor& x, const Tensor& kernel, const Convolution& options) {
  return convolve({1, options}, x, kernel);
}
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Convolution& options) {
  return convolve({2, options}, x, kernel);
}
Tensor conv3d(const Tensor& x, const Tensor& kernel, const Convolution& options) {
  return convolve({3, options}, x, kernel);
}

Tensor depthwise_conv2d(const Tensor& x, const Tensor& kernel, const DepthwiseConvolution& options) {
  check_defined("depthwise_conv2d", x, kernel);
  check_rank("depthwise_conv2d", "x", x.spec(), 2);
  check_rank("depthwise_conv2d", "a kernel", kernel.spec(), 2);
  const Shape& w = kernel.shape();
  TW_CHECK_USER(w[2] == x.shape().last(), "depthwise_conv2d", "the kernel is [height, width, in, multiplier]",
                "expected a kernel for the {} channels of x {}, got {}", x.shape().last(), x.shape(), w);
  const Tensor grouped = reshape(kernel, {w[0], w[1], 1, w[2] * w[3]});
  return conv2d(
      x, grouped,
      {.strides = options.strides, .padding = options.padding, .dilations = options.dilations, .groups = w[2]});
}

Tensor separable_conv2d(const Tensor& x, const Tensor& depthwise_kernel, const Tensor& pointwise_kernel,
                        const DepthwiseConvolution& options) {
  return conv2d(depthwise_conv2d(x, depthwise_kernel, options), pointwise_kernel);
}

Tensor conv1d_transpose(const Tensor& x, const Tensor& kernel, const Shape& output_shape, const Convolution& options) {
  return transposed({1, options}, x, kernel, output_shape);
}
Tensor conv2d_transpose(const Tensor& x, const Tensor& kernel, const Shape& output_shape, const Convolution& options) {
  return transposed({2, options}, x, kernel, output_shape);
}

}  // namespace thalweg
