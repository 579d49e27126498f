#pragma once

// Norms within each example; batch_norm.h has the one over examples.
#include "thalweg/nn/layer.h"
#include "thalweg/ops/axes.h"

namespace thalweg::nn {

struct LayerNormOptions {
  Axes axes = -1;
  double epsilon = 1e-3;
  bool center = true;  // beta
  bool scale = true;   // gamma
  Initializer beta_initializer = initializers::zeros;
  Initializer gamma_initializer = initializers::ones;
  Regularizer beta_regularizer = {};
  Regularizer gamma_regularizer = {};
  std::string name = {};
};

// (x - mean) / sqrt(variance + epsilon) * gamma + beta over some axes, by default the last; gamma and beta have their
// sizes.
class TW_API LayerNorm : public LayerWith<LayerNormOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable gamma_, beta_;
  Shape sizes_;             // of gamma and beta
  Ints to_last_, to_back_;  // permutations that put the axes last and back; empty when they are the last
};

struct RMSNormOptions {
  double epsilon = 1e-6;
  Initializer scale_initializer = initializers::ones;
  std::string name = {};
};

// x / sqrt(mean(x^2) + epsilon) * scale over the last axis.
class TW_API RMSNorm : public LayerWith<RMSNormOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable scale_;
};

struct GroupNormOptions {
  std::int64_t groups = 32;
  double epsilon = 1e-3;
  bool center = true;  // beta
  bool scale = true;   // gamma
  Initializer beta_initializer = initializers::zeros;
  Initializer gamma_initializer = initializers::ones;
  std::string name = {};
};

// (x - mean) / sqrt(variance + epsilon) * gamma + beta with one mean and variance per example and group of neighbouring
// channels.
//   x [batch, spatial…, channels]   gamma, beta [channels]
class TW_API GroupNorm : public LayerWith<GroupNormOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable gamma_, beta_;
};

struct UnitNormOptions {
  Axes axes = -1;
  std::string name = {};
};

// x divided by its 2-norm over some axes, by default the last.
class TW_API UnitNorm : public LayerWith<UnitNormOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

}  // namespace thalweg::nn
