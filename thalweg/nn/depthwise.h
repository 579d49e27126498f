#pragma once

#include "thalweg/nn/activation.h"
#include "thalweg/nn/layer.h"
#include "thalweg/nn/sizes.h"
#include "thalweg/ops/padding.h"

namespace thalweg::nn {

struct DepthwiseConvOptions {
  Sizes kernel_size = 1;
  Sizes strides = 1;
  Padding padding = valid;
  std::int64_t depth_multiplier = 1;
  Sizes dilations = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer depthwise_initializer = initializers::glorot_uniform;
  Initializer bias_initializer = initializers::zeros;
  Regularizer depthwise_regularizer = {};
  Regularizer bias_regularizer = {};
  std::string name = {};
};

// Every channel convolved by itself.
//   x [batch, height, width, in]   kernel [rows, columns, in, multiplier]   ->   [batch, places…, in * multiplier]
class TW_API DepthwiseConv2D : public LayerWith<DepthwiseConvOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable kernel_, bias_;
};

struct SeparableConvOptions {
  std::int64_t filters = 0;
  Sizes kernel_size = 1;
  Sizes strides = 1;
  Padding padding = valid;
  Sizes dilations = 1;
  std::int64_t depth_multiplier = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer depthwise_initializer = initializers::glorot_uniform;
  Initializer pointwise_initializer = initializers::glorot_uniform;
  Initializer bias_initializer = initializers::zeros;
  Regularizer depthwise_regularizer = {};
  Regularizer pointwise_regularizer = {};
  Regularizer bias_regularizer = {};
  std::string name = {};
};

// A depthwise convolution, then a product of the channels at every place.
//   depthwise_kernel [rows, columns, in, multiplier]   pointwise_kernel [1, 1, in * multiplier, filters]
class TW_API SeparableConv2D : public LayerWith<SeparableConvOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable depthwise_kernel_, pointwise_kernel_, bias_;
};

}  // namespace thalweg::nn
