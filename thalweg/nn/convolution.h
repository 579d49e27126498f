#pragma once

#include "thalweg/nn/activation.h"
#include "thalweg/nn/layer.h"
#include "thalweg/nn/sizes.h"
#include "thalweg/ops/padding.h"

namespace thalweg::nn {

struct ConvOptions {
  std::int64_t filters = 0;
  Sizes kernel_size = 1;
  Sizes strides = 1;
  Padding padding = valid;
  Sizes dilations = 1;
  std::int64_t groups = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform;
  Initializer bias_initializer = initializers::zeros;
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  bool causal = false;  // of Conv1D: a step sees none after it; padding is then not used
  std::string name = {};
};

// What the layers below have in common: a kernel, a bias of [filters], and what follows the convolution.
class TW_API ConvLayer : public LayerWith<ConvOptions> {
 public:
  using LayerWith::LayerWith;
  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }

 protected:
  void add_weights(const Spec& x, const Shape& kernel);
  Tensor finish(const Tensor& y) const;
  Variable kernel_, bias_;
};

// activation(convolution(x, kernel) + bias) with 1 to 3 spatial axes.
//   x [batch, spatial…, in]   kernel [taps…, in / groups, filters]   ->   [batch, places…, filters]
template <int spatial>
class TW_API Conv : public ConvLayer {
 public:
  using ConvLayer::ConvLayer;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;
};
using Conv1D = Conv<1>;
using Conv2D = Conv<2>;
using Conv3D = Conv<3>;
extern template class Conv<1>;
extern template class Conv<2>;
extern template class Conv<3>;

// Back from the places of a convolution to its input: with strides the result is that many times as large, and valid
// padding adds max(taps - stride, 0) places. `causal` is refused.
//   x [batch, spatial…, in]   kernel [taps…, filters / groups, in]   ->   [batch, spatial * stride…, filters]
template <int spatial>
class TW_API ConvTranspose : public ConvLayer {
 public:
  using ConvLayer::ConvLayer;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;
};
using Conv1DTranspose = ConvTranspose<1>;
using Conv2DTranspose = ConvTranspose<2>;
extern template class ConvTranspose<1>;
extern template class ConvTranspose<2>;

}  // namespace thalweg::nn
