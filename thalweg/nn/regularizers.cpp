#include "thalweg/nn/regularizers.h"

#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"

namespace thalweg::nn::regularizers {

Regularizer l1(double factor) {
  return [factor](const Tensor& w) { return factor * reduce_sum(abs(w)); };
}

Regularizer l2(double factor) {
  return [factor](const Tensor& w) { return factor * reduce_sum(square(w)); };
}

Regularizer l1_l2(double l1_factor, double l2_factor) {
  return [first = l1(l1_factor), second = l2(l2_factor)](const Tensor& w) { return first(w) + second(w); };
}

}  // namespace thalweg::nn::regularizers
