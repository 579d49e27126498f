#pragma once

#include "thalweg/nn/layer.h"
#include "thalweg/ops/axes.h"

namespace thalweg::nn {

struct NormalizationOptions {
  Axes axes = -1;       // with statistics for every place along them; Axes::none(): one for everything
  bool invert = false;  // from normalized values back
  std::string name = {};
};

// (x - mean) / sqrt(variance) with statistics that adapt() takes from data. A deviation below 1e-7 counts as 1e-7.
class TW_API Normalization : public LayerWith<NormalizationOptions> {
 public:
  using LayerWith::LayerWith;
  // Mean and biased variance of the data [examples, …]. A second call adds its data to those before.
  void adapt(const Tensor& data);
  void reset();  // forgets the data

 protected:
  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;

 private:
  Variable mean_, variance_;
  double count_ = 0;  // of elements behind one mean
};

}  // namespace thalweg::nn
