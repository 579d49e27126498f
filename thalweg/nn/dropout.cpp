#include "thalweg/nn/dropout.h"

#include "thalweg/core/check.h"
#include "thalweg/nn/training.h"
#include "thalweg/ops/dropout/dropout.h"

namespace thalweg::nn {

void Dropout::build(const Spec&) {
  TW_CHECK_USER(options_.rate >= 0 && options_.rate <= 1, "dropout", "0.5 drops every second element",
                "expected a rate from 0 to 1, got {}", options_.rate);
}

Tensor Dropout::call(const Tensor& x) {
  return is_training() && options_.rate > 0 ? thalweg::dropout(x, options_.rate) : x;
}

}  // namespace thalweg::nn
