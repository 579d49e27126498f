#include "thalweg/nn/depthwise.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/convolution/convolution.h"
#include "thalweg/ops/elementwise.h"

namespace thalweg::nn {
namespace {

template <class Options>
Shape depthwise_shape(const char* op, const Options& options, const Spec& x) {
  TW_CHECK_USER(x.rank() == 4, op, "images are [batch, height, width, channels]; tw::expand_dims adds an axis",
                "expected an input of rank 4, got {}", x.shape);
  TW_CHECK_USER(options.depth_multiplier > 0, op, "1 makes one output channel of each input channel",
                "expected a depth_multiplier above 0, got {}", options.depth_multiplier);
  const Ints taps = options.kernel_size.resolve(op, "kernel_size", 2);
  return {taps[0], taps[1], x.shape.last(), options.depth_multiplier};
}

template <class Options>
DepthwiseConvolution convolution_of(const char* op, const Options& options) {
  return {.strides = options.strides.resolve(op, "strides", 2),
          .padding = options.padding,
          .dilations = options.dilations.resolve(op, "dilations", 2)};
}

}  // namespace

void DepthwiseConv2D::build(const Spec& x) {
  const DType dtype = weight_dtype(x);
  kernel_ = add_variable("kernel", depthwise_shape("depthwise_conv2d", options_, x), options_.depthwise_initializer,
                         {.dtype = dtype, .regularizer = options_.depthwise_regularizer});
  if (options_.use_bias)
    bias_ = add_variable("bias", {x.shape.last() * options_.depth_multiplier}, options_.bias_initializer,
                         {.dtype = dtype, .regularizer = options_.bias_regularizer});
}

Tensor DepthwiseConv2D::call(const Tensor& x) {
  Tensor y = depthwise_conv2d(x, read(kernel_, x.dtype()), convolution_of("depthwise_conv2d", options_));
  if (options_.use_bias) y = y + read(bias_, x.dtype());
  return options_.activation(y);
}

void SeparableConv2D::build(const Spec& x) {
  TW_CHECK_USER(options_.filters > 0, "separable_conv2d", "name the number of output channels: {.filters = 32}",
                "expected filters above 0, got {}", options_.filters);
  const DType dtype = weight_dtype(x);
  depthwise_kernel_ =
      add_variable("depthwise_kernel", depthwise_shape("separable_conv2d", options_, x), options_.depthwise_initializer,
                   {.dtype = dtype, .regularizer = options_.depthwise_regularizer});
  pointwise_kernel_ =
      add_variable("pointwise_kernel", {1, 1, x.shape.last() * options_.depth_multiplier, options_.filters},
                   options_.pointwise_initializer, {.dtype = dtype, .regularizer = options_.pointwise_regularizer});
  if (options_.use_bias)
    bias_ = add_variable("bias", {options_.filters}, options_.bias_initializer,
                         {.dtype = dtype, .regularizer = options_.bias_regularizer});
}

Tensor SeparableConv2D::call(const Tensor& x) {
  Tensor y = separable_conv2d(x, read(depthwise_kernel_, x.dtype()), read(pointwise_kernel_, x.dtype()),
                              convolution_of("separable_conv2d", options_));
  if (options_.use_bias) y = y + read(bias_, x.dtype());
  return options_.activation(y);
}

}  // namespace thalweg::nn
