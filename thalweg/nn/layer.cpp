#include "thalweg/nn/layer.h"

#include "thalweg/core/check.h"

namespace thalweg::nn {

Tensor Layer::operator()(const Tensor& x) {
  const Call running(*this);
  build_once([&] { build(x.spec()); });
  Tensor y = call(x);
  note_output(y.shape());
  return y;
}

void Layer::build(const Spec&) {}

void Layer::check_fits(const char* layer, const Shape& weights, const Shape& x) {
  const int missing = x.rank() - weights.rank();
  bool fits = missing >= 0;
  for (int axis = 0; fits && axis < weights.rank(); ++axis)
    fits = weights[axis] == 1 || weights[axis] == x[axis + missing];
  TW_CHECK_USER(fits, layer, "a layer is for inputs of the sizes that it met first; make another one for these",
                "expected an input that weights of shape {} fit, got {}", weights, x);
}

}  // namespace thalweg::nn
