#pragma once

#include "thalweg/core/tensor.h"
#include "thalweg/ops/padding.h"

namespace thalweg {

// Strides and dilations: one entry per spatial axis, one for all, or none (1).
struct Convolution {
  Ints strides = {};
  Padding padding = valid;
  Ints dilations = {};
  std::int64_t groups = 1;  // channels are cut into this many parts, each with its own kernels
};

// y[n, o…, c] = sum over taps t and channels i of x[n, o * stride + t * dilation - padding, i] kernel[t, i, c]
//   x [batch, spatial…, in]   kernel [taps…, in / groups, out]   ->   [batch, places…, out]
TW_API Tensor conv1d(const Tensor& x, const Tensor& kernel, const Convolution& options = {});
TW_API Tensor conv2d(const Tensor& x, const Tensor& kernel, const Convolution& options = {});
TW_API Tensor conv3d(const Tensor& x, const Tensor& kernel, const Convolution& options = {});

struct DepthwiseConvolution {
  Ints strides = {};
  Padding padding = valid;
  Ints dilations = {};
};

// Every channel by itself: kernel [height, width, in, multiplier] gives in * multiplier channels, those of one input
// channel side by side.
TW_API Tensor depthwise_conv2d(const Tensor& x, const Tensor& kernel, const DepthwiseConvolution& options = {});
// depthwise_conv2d, then a product with pointwise_kernel [1, 1, in * multiplier, out] at every place.
TW_API Tensor separable_conv2d(const Tensor& x, const Tensor& depthwise_kernel, const Tensor& pointwise_kernel,
                               const DepthwiseConvolution& options = {});

// The gradient of conv1d or conv2d by its input, as an op: x has the shape of that convolution's result.
//   x [batch, places…, in]   kernel [taps…, out / groups, in]   ->   output_shape [batch, spatial…, out]
TW_API Tensor conv1d_transpose(const Tensor& x, const Tensor& kernel, const Shape& output_shape,
                               const Convolution& options = {});
TW_API Tensor conv2d_transpose(const Tensor& x, const Tensor& kernel, const Shape& output_shape,
                               const Convolution& options = {});

}  // namespace thalweg
