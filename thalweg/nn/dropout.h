#pragma once

#include "thalweg/nn/layer.h"

namespace thalweg::nn {

struct DropoutOptions {
  double rate = 0.5;
  std::string name = {};
};

// In training, sets a fraction `rate` of the elements to zero and divides the others by 1 - rate; otherwise x itself.
class TW_API Dropout : public LayerWith<DropoutOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;
};

}  // namespace thalweg::nn
