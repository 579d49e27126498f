#pragma once

#include "thalweg/optim/rule.h"

namespace thalweg::optim {

struct AdamMoments {
  double beta_1, beta_2, epsilon;
  bool amsgrad = false;
};

struct AdamRule : ElementwiseRule {
  explicit AdamRule(const AdamMoments& moments) : o(moments) {}
  std::vector<Slot> slots(const Variable& variable) const override;
  Tensors scalars(const Step& step) override;
  Expressions formula(const Expression& w, const Expression& g, const Expressions& slots,
                      const Expressions& scalars) const override;
  const AdamMoments o;
};

// m += (g - m) * (1 - beta): the moving mean of Adam and its relatives
template <class V>
V moved(const V& m, const V& g, double beta) {
  return m + (g - m) * (1 - beta);
}

}  // namespace thalweg::optim
