#include "thalweg/core/check.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/optim/pipeline.h"

namespace thalweg::optim {
namespace {

using namespace rows;

struct SGDRule : ElementwiseRule {
  explicit SGDRule(const SGDOptions& options) : o(options) {}

  std::vector<Slot> slots(const Variable& variable) const override {
    if (o.momentum == 0) return {};
    return {{"momentum", variable.shape()}};
  }
  Tensors scalars(const Step& step) override { return {step.rate}; }
  bool rests() const override { return o.momentum == 0; }

  Expressions formula(E w, E g, const Expressions& slots, const Expressions& scalars) const override {
    const Expression step = scalars[0] * g;
    if (slots.empty()) return {w - step};
    const Expression velocity = o.momentum * slots[0] - step;
    return {o.nesterov ? w + (o.momentum * velocity - step) : w + velocity, velocity};
  }

  const SGDOptions o;
};

}  // namespace

SGD::SGD(const SGDOptions& o)
    : Optimizer(std::make_unique<Pipeline>("sgd", common_of(o), std::make_unique<SGDRule>(o))) {
  check_part("sgd", ".momentum", o.momentum);
}

}  // namespace thalweg::optim
