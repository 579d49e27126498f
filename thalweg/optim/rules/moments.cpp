// Relatives of Adam that treat every element alike: Nadam, Adamax, Lion.
#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/optim/pipeline.h"
#include "thalweg/optim/rules/adam.h"

namespace thalweg::optim {
namespace {

using namespace rows;

// momentum_t = beta_1 * (1 - 0.96^t / 2) grows with t; what corrects the mean is the product of all so far.
struct NadamRule : ElementwiseRule {
  explicit NadamRule(const NadamOptions& options)
      : o(options), product(scalar(1, f64), {.name = "nadam/momentum_product", .trainable = false}) {}

  std::vector<Slot> slots(const Variable& variable) const override {
    return {{"momentum", variable.shape()}, {"velocity", variable.shape()}};
  }
  std::vector<Variable> shared() const override { return {product}; }

  Tensor momentum(const Tensor& t) const { return o.beta_1 * (1 - 0.5 * pow(0.96, t)); }

  Tensors scalars(const Step& step) override {
    const Tensor now = momentum(step.t), next = momentum(step.t + 1);
    const Tensor before = product, all = before * now;
    product.assign(step.due.defined() ? where(step.due, all, before) : all);
    return {step.rate * next / (1 - all * next), step.rate * (1 - now) / (1 - all), 1 - pow(o.beta_2, step.t)};
  }

  Expressions formula(E w, E g, const Expressions& slots, const Expressions& scalars) const override {
    const Expression m = moved(slots[0], g, o.beta_1), v = moved(slots[1], g * g, o.beta_2);
    return {w - (scalars[0] * m + scalars[1] * g) / (sqrt(v / scalars[2]) + o.epsilon), m, v};
  }

  const NadamOptions o;
  Variable product;
};

struct AdamaxRule : ElementwiseRule {
  explicit AdamaxRule(const AdamaxOptions& options) : o(options) {}

  std::vector<Slot> slots(const Variable& variable) const override {
    return {{"momentum", variable.shape()}, {"norm", variable.shape()}};
  }
  Tensors scalars(const Step& step) override { return {step.rate / (1 - pow(o.beta_1, step.t))}; }

  Expressions formula(E w, E g, const Expressions& slots, const Expressions& scalars) const override {
    const Expression m = moved(slots[0], g, o.beta_1), u = maximum(o.beta_2 * slots[1], abs(g));
    return {w - scalars[0] * m / (u + o.epsilon), m, u};
  }

  const AdamaxOptions o;
};

struct LionRule : ElementwiseRule {
  explicit LionRule(const LionOptions& options) : o(options) {}

  std::vector<Slot> slots(const Variable& variable) const override { return {{"momentum", variable.shape()}}; }
  Tensors scalars(const Step& step) override { return {step.rate}; }

  Expressions formula(E w, E g, const Expressions& slots, const Expressions& scalars) const override {
    const auto mixed = [&](double beta) { return beta * slots[0] + (1 - beta) * g; };
    return {w - scalars[0] * sign(mixed(o.beta_1)), mixed(o.beta_2)};
  }

  const LionOptions o;
};

template <class MomentRule, class Options>
std::unique_ptr<Pipeline> make(const char* name, const Options& o) {
  check_part(name, ".beta_1", o.beta_1), check_part(name, ".beta_2", o.beta_2);
  return std::make_unique<Pipeline>(name, common_of(o), std::make_unique<MomentRule>(o));
}

}  // namespace

Nadam::Nadam(const NadamOptions& o) : Optimizer(make<NadamRule>("nadam", o)) {
  check_beta("nadam", ".beta_1", o.beta_1), check_beta("nadam", ".beta_2", o.beta_2);
}
Adamax::Adamax(const AdamaxOptions& o) : Optimizer(make<AdamaxRule>("adamax", o)) {
  check_beta("adamax", ".beta_1", o.beta_1);
}

Lion::Lion(const LionOptions& o) : Optimizer(make<LionRule>("lion", o)) {
  TW_CHECK_USER(o.beta_1 > 0, "lion", "0.9 is usual", "expected .beta_1 above 0, got {}", o.beta_1);
}

}  // namespace thalweg::optim
