#pragma once

#include "thalweg/nn/activation.h"
#include "thalweg/nn/layer.h"

namespace thalweg::nn {

struct DenseOptions {
  std::int64_t units = 0;
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform;
  Initializer bias_initializer = initializers::zeros;
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  std::string name = {};
};

// activation(x kernel + bias) over the last axis.
//   x [..., in]   kernel [in, units]   bias [units]   ->   [..., units]
class TW_API Dense : public LayerWith<DenseOptions> {
 public:
  using LayerWith::LayerWith;
  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable kernel_, bias_;
};

}  // namespace thalweg::nn
