#pragma once

// Activations as layers, for lists of layers and for those with options or weights of their own.
#include <optional>

#include "thalweg/nn/activation.h"
#include "thalweg/nn/layer.h"
#include "thalweg/ops/axes.h"

namespace thalweg::nn {

struct ReLUOptions {
  std::optional<double> max_value = {};
  double negative_slope = 0;
  double threshold = 0;
  std::string name = {};
};

// x from the threshold on (at most max_value), negative_slope * (x - threshold) below it.
class TW_API ReLU : public LayerWith<ReLUOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

struct LeakyReLUOptions {
  double negative_slope = 0.3;
  std::string name = {};
};

class TW_API LeakyReLU : public LayerWith<LeakyReLUOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

struct PReLUOptions {
  Initializer alpha_initializer = initializers::zeros;
  Regularizer alpha_regularizer = {};
  Axes shared_axes = Axes::none();  // along which one slope serves all
  std::string name = {};
};

// x above zero and alpha x below, with a learned slope for every element of an example.
class TW_API PReLU : public LayerWith<PReLUOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable alpha_;
};

struct ELUOptions {
  double alpha = 1;
  std::string name = {};
};

// x above zero, alpha (exp(x) - 1) below.
class TW_API ELU : public LayerWith<ELUOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

struct SoftmaxOptions {
  std::int64_t axis = -1;
  std::string name = {};
};

class TW_API Softmax : public LayerWith<SoftmaxOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

struct LambdaOptions {
  Activation function = {};
  std::string name = {};
};

// Any function of one tensor as a layer.
class TW_API Lambda : public LayerWith<LambdaOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

}  // namespace thalweg::nn
