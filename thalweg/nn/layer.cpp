#include "thalweg/nn/layer.h"

namespace thalweg::nn {

Tensor Layer::operator()(const Tensor& x) {
  const Call running(*this);
  build_once([&] { build(x.spec()); });
  Tensor y = call(x);
  note_output(y.shape());
  return y;
}

void Layer::build(const Spec&) {}

}  // namespace thalweg::nn
