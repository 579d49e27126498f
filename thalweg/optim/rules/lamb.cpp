#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/optim/pipeline.h"
#include "thalweg/optim/rules/adam.h"

namespace thalweg::optim {
namespace {

struct LambRule : CompositeRule {
  explicit LambRule(const LambOptions& options) : o(options) {}

  std::vector<Slot> slots(const Variable& variable) const override {
    return {{"momentum", variable.shape()}, {"velocity", variable.shape()}};
  }
  Tensors scalars(const Step& step) override {
    return {step.rate, 1 - pow(o.beta_1, step.t), 1 - pow(o.beta_2, step.t)};
  }

  // {step, m, v} from m, v, g and the corrections
  Expressions moments(const Expressions& in) const {
    using namespace rows;
    const Expression m = moved(in[0], in[2], o.beta_1), v = moved(in[1], in[2] * in[2], o.beta_2);
    return {m / in[3] / (sqrt(v / in[4]) + o.epsilon), m, v};
  }

  Tensors change(const Tensor& w, const Tensor& g, const Tensors& slots, const Tensors& scalars) const override {
    const auto& program = write_program(5, [this](const Expressions& in) { return moments(in); });
    Tensors changed = run_written(program, {slots[0], slots[1], g, scalars[1], scalars[2]});
    const Tensor weight = norm(w), length = norm(changed[0]);
    const Tensor ratio = where((weight > 0) & (length > 0), divide_no_nan(weight, length), 1);
    changed[0] = w - ratio * scalars[0] * changed[0];
    return changed;
  }

  const LambOptions o;
};

}  // namespace

Lamb::Lamb(const LambOptions& o)
    : Optimizer(std::make_unique<Pipeline>("lamb", common_of(o), std::make_unique<LambRule>(o))) {
  check_beta("lamb", ".beta_1", o.beta_1), check_beta("lamb", ".beta_2", o.beta_2);
}

}  // namespace thalweg::optim
