#pragma once

#include <string>

#include "thalweg/nn/activation.h"
#include "thalweg/nn/layer.h"

namespace thalweg::nn {

struct EinsumDenseOptions {
  std::string equation = {};  // of x and the kernel: "abc,cde->abde"
  Ints output_shape = {};     // sizes of the result behind the batch; -1: as in x
  Activation activation = {};
  std::string bias_axes = {};  // letters of the result that the bias has: "de"; none: no bias
  Initializer kernel_initializer = initializers::glorot_uniform;
  Initializer bias_initializer = initializers::zeros;
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  std::string name = {};
};

// activation(einsum(equation, x, kernel) + bias). The kernel's inputs are its letters that the result lacks.
class TW_API EinsumDense : public LayerWith<EinsumDenseOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable kernel_, bias_;
};

}  // namespace thalweg::nn
