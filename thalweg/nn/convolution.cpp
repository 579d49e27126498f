#include "thalweg/nn/convolution.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/ops/convolution/convolution.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/pad/pad.h"

namespace thalweg::nn {
namespace {

constexpr const char* names[] = {"conv1d", "conv2d", "conv3d"};
constexpr const char* transpose_names[] = {"conv1d_transpose", "conv2d_transpose"};

void check(const char* op, const ConvOptions& options, const Spec& x, int spatial, bool may_be_causal) {
  TW_CHECK_USER(options.filters > 0, op, "name the number of output channels: {.filters = 32}",
                "expected filters above 0, got {}", options.filters);
  TW_CHECK_USER(x.rank() == spatial + 2, op, "images are [batch, spatial…, channels]; tw::expand_dims adds an axis",
                "expected an input of rank {}, got {}", spatial + 2, x.shape);
  TW_CHECK_USER(options.groups > 0 && x.shape.last() % options.groups == 0 && options.filters % options.groups == 0, op,
                "input channels and filters must be multiples of groups",
                "expected groups that divide {} channels and {} filters, got {}", x.shape.last(), options.filters,
                options.groups);
  TW_CHECK_USER(!options.causal || may_be_causal, op, "only tw::nn::Conv1D can be causal",
                "expected causal = false, got true");
}

// [taps…, in, out]
Shape kernel_shape(Ints taps, std::int64_t in, std::int64_t out) {
  taps.push_back(in);
  taps.push_back(out);
  return Shape(taps);
}

Convolution convolution_of(const char* op, const ConvOptions& options, int spatial) {
  return {.strides = options.strides.resolve(op, "strides", spatial),
          .padding = options.padding,
          .dilations = options.dilations.resolve(op, "dilations", spatial),
          .groups = options.groups};
}

template <int spatial>
Tensor convolve(const Tensor& x, const Tensor& kernel, const Convolution& options) {
  if constexpr (spatial == 1) return thalweg::conv1d(x, kernel, options);
  if constexpr (spatial == 2) return thalweg::conv2d(x, kernel, options);
  if constexpr (spatial == 3) return thalweg::conv3d(x, kernel, options);
}

template <int spatial>
Tensor convolve_back(const Tensor& x, const Tensor& kernel, const Shape& shape, const Convolution& options) {
  if constexpr (spatial == 1) return thalweg::conv1d_transpose(x, kernel, shape, options);
  if constexpr (spatial == 2) return thalweg::conv2d_transpose(x, kernel, shape, options);
}

}  // namespace

void ConvLayer::add_weights(const Spec& x, const Shape& kernel) {
  const DType dtype = weight_dtype(x);
  kernel_ = add_variable("kernel", kernel, options_.kernel_initializer,
                         {.dtype = dtype, .regularizer = options_.kernel_regularizer});
  if (options_.use_bias)
    bias_ = add_variable("bias", {options_.filters}, options_.bias_initializer,
                         {.dtype = dtype, .regularizer = options_.bias_regularizer});
}

Tensor ConvLayer::finish(const Tensor& y) const {
  return options_.activation(options_.use_bias ? y + read(bias_, y.dtype()) : y);
}

template <int spatial>
void Conv<spatial>::build(const Spec& x) {
  const char* op = names[spatial - 1];
  check(op, options_, x, spatial, spatial == 1);
  const Ints taps = options_.kernel_size.resolve(op, "kernel_size", spatial);
  add_weights(x, kernel_shape(taps, x.shape.last() / options_.groups, options_.filters));
}

template <int spatial>
Tensor Conv<spatial>::call(const Tensor& x) {
  Convolution options = convolution_of(names[spatial - 1], options_, spatial);
  Tensor padded = x;
  if (options_.causal) {
    options.padding = valid;
    padded = pad(x, {{0, 0}, {(kernel_.shape()[0] - 1) * options.dilations[0], 0}, {0, 0}});
  }
  return finish(convolve<spatial>(padded, read(kernel_, x.dtype()), options));
}

template <int spatial>
void ConvTranspose<spatial>::build(const Spec& x) {
  const char* op = transpose_names[spatial - 1];
  check(op, options_, x, spatial, false);
  const Ints taps = options_.kernel_size.resolve(op, "kernel_size", spatial);
  add_weights(x, kernel_shape(taps, options_.filters / options_.groups, x.shape.last()));
}

template <int spatial>
Tensor ConvTranspose<spatial>::call(const Tensor& x) {
  const Convolution options = convolution_of(transpose_names[spatial - 1], options_, spatial);
  Shape shape = x.shape().with(spatial + 1, options_.filters);
  for (int i = 0; i < spatial; ++i) {
    const std::int64_t reach = (kernel_.shape()[i] - 1) * options.dilations[i] + 1, stride = options.strides[i];
    const std::int64_t extra = options.padding == valid ? std::max<std::int64_t>(reach - stride, 0) : 0;
    shape = shape.with(i + 1, x.shape()[i + 1] * stride + extra);
  }
  return finish(convolve_back<spatial>(x, read(kernel_, x.dtype()), shape, options));
}

template class Conv<1>;
template class Conv<2>;
template class Conv<3>;
template class ConvTranspose<1>;
template class ConvTranspose<2>;

}  // namespace thalweg::nn
