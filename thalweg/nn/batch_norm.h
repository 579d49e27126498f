#pragma once

#include "thalweg/nn/layer.h"

namespace thalweg::nn {

struct BatchNormOptions {
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool center = true;  // beta
  bool scale = true;   // gamma
  Initializer beta_initializer = initializers::zeros;
  Initializer gamma_initializer = initializers::ones;
  Regularizer beta_regularizer = {};
  Regularizer gamma_regularizer = {};
  std::string name = {};
};

struct BatchNormCall {
  Tensor mask = {};  // boolean, the shape of x without channels: what is false, such as padding, is in no statistics
};

// (x - mean) / sqrt(variance + epsilon) * gamma + beta for every channel. In training, unless the layer is frozen, mean
// and biased variance are those of the batch, and the moving ones follow them:
//   moving = momentum * moving + (1 - momentum) * batch
// Otherwise the moving ones are used.
//   x [..., channels]   gamma, beta, moving_mean, moving_variance [channels]   ->   as x
class TW_API BatchNorm : public LayerWith<BatchNormOptions> {
 public:
  using LayerWith::LayerWith;
  using Layer::operator();
  Tensor operator()(const Tensor& x, const BatchNormCall& call);
  const Variable& moving_mean() const { return moving_mean_; }
  const Variable& moving_variance() const { return moving_variance_; }

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Tensor compute(const Tensor& x, const Tensor& mask);
  Tensor normalized(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& gamma,
                    const Tensor& beta) const;
  void follow(const Tensor& mean, const Tensor& variance);
  Variable gamma_, beta_, moving_mean_, moving_variance_;
};

}  // namespace thalweg::nn
