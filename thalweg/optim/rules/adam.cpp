#include "thalweg/optim/rules/adam.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/optim/pipeline.h"

namespace thalweg::optim {

using namespace rows;

std::vector<Slot> AdamRule::slots(const Variable& variable) const {
  std::vector<Slot> list{{"momentum", variable.shape()}, {"velocity", variable.shape()}};
  if (o.amsgrad) list.push_back({"velocity_hat", variable.shape()});
  return list;
}

Tensors AdamRule::scalars(const Step& step) {
  return {step.rate * sqrt(1 - pow(o.beta_2, step.t)) / (1 - pow(o.beta_1, step.t))};
}

Expressions AdamRule::formula(E w, E g, const Expressions& slots, const Expressions& scalars) const {
  const Expression m = moved(slots[0], g, o.beta_1), v = moved(slots[1], g * g, o.beta_2);
  const Expression largest = o.amsgrad ? maximum(slots[2], v) : v;
  Expressions changed{w - m * scalars[0] / (sqrt(largest) + o.epsilon), m, v};
  if (o.amsgrad) changed.push_back(largest);
  return changed;
}

namespace {

template <class Options>
std::unique_ptr<Pipeline> make(const char* name, const Options& o) {
  check_beta(name, ".beta_1", o.beta_1), check_beta(name, ".beta_2", o.beta_2);
  return std::make_unique<Pipeline>(name, common_of(o),
                                    std::make_unique<AdamRule>(AdamMoments{o.beta_1, o.beta_2, o.epsilon, o.amsgrad}));
}

}  // namespace

Adam::Adam(const AdamOptions& o) : Optimizer(make("adam", o)) {}

AdamW::AdamW(const AdamWOptions& o) : Optimizer(make("adamw", o)) {
  TW_CHECK_USER(o.weight_decay.has_value(), "adamw", "use Adam, or {.weight_decay = 0.004}",
                "expected a .weight_decay, got none");
}

}  // namespace thalweg::optim
