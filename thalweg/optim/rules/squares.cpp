// Rules that divide by sums or means of squared gradients: RMSprop, Adagrad, Adadelta, Ftrl.
#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/optim/pipeline.h"

namespace thalweg::optim {
namespace {

using namespace rows;

Expression mean(double rho, E before, E now) { return rho * before + (1 - rho) * now; }

struct RMSpropRule : ElementwiseRule {
  explicit RMSpropRule(const RMSpropOptions& options) : o(options) {}

  std::vector<Slot> slots(const Variable& variable) const override {
    std::vector<Slot> list{{"velocity", variable.shape()}};
    if (o.momentum > 0) list.push_back({"momentum", variable.shape()});
    if (o.centered) list.push_back({"average_gradient", variable.shape()});
    return list;
  }
  Tensors scalars(const Step& step) override { return {step.rate}; }

  Expressions formula(E w, E g, const Expressions& slots, const Expressions& scalars) const override {
    Expressions changed{w, mean(o.rho, slots[0], g * g)};
    const Expression average = o.centered ? mean(o.rho, slots.back(), g) : g;
    // Never negative but by rounding, which epsilon does not make up for where the gradient hardly changes.
    const Expression variance = o.centered ? maximum(changed[1] - average * average, 0) : changed[1];
    Expression step = scalars[0] * g / sqrt(variance + o.epsilon);
    if (o.momentum > 0) changed.push_back(step = o.momentum * slots[1] + step);
    if (o.centered) changed.push_back(average);
    changed[0] = w - step;
    return changed;
  }

  const RMSpropOptions o;
};

struct AdagradRule : ElementwiseRule {
  explicit AdagradRule(const AdagradOptions& options) : o(options) {}

  std::vector<Slot> slots(const Variable& variable) const override {
    return {{"accumulator", variable.shape(), o.initial_accumulator_value}};
  }
  Tensors scalars(const Step& step) override { return {step.rate}; }
  bool rests() const override { return true; }

  Expressions formula(E w, E g, const Expressions& slots, const Expressions& scalars) const override {
    const Expression sum = slots[0] + g * g;
    return {w - scalars[0] * g / sqrt(sum + o.epsilon), sum};
  }

  const AdagradOptions o;
};

struct AdadeltaRule : ElementwiseRule {
  explicit AdadeltaRule(const AdadeltaOptions& options) : o(options) {}

  std::vector<Slot> slots(const Variable& variable) const override {
    return {{"accumulated_gradient", variable.shape()}, {"accumulated_change", variable.shape()}};
  }
  Tensors scalars(const Step& step) override { return {step.rate}; }

  Expressions formula(E w, E g, const Expressions& slots, const Expressions& scalars) const override {
    const Expression squares = mean(o.rho, slots[0], g * g);
    const Expression change = sqrt(slots[1] + o.epsilon) * g / sqrt(squares + o.epsilon);
    return {w - scalars[0] * change, squares, mean(o.rho, slots[1], change * change)};
  }

  const AdadeltaOptions o;
};

struct FtrlRule : ElementwiseRule {
  explicit FtrlRule(const FtrlOptions& options) : o(options) {}

  std::vector<Slot> slots(const Variable& variable) const override {
    return {{"accumulator", variable.shape(), o.initial_accumulator_value}, {"linear", variable.shape()}};
  }
  Tensors scalars(const Step& step) override { return {step.rate}; }

  Expressions formula(E w, E g, const Expressions& slots, const Expressions& scalars) const override {
    E rate = scalars[0];
    const auto power = [&](E x) { return o.learning_rate_power == -0.5 ? sqrt(x) : pow(x, -o.learning_rate_power); };
    const Expression sum = slots[0] + g * g, steepness = power(sum);
    const Expression pull =
        o.l2_shrinkage_regularization_strength == 0 ? g : g + 2 * o.l2_shrinkage_regularization_strength * w;
    const Expression linear = slots[1] + pull - (steepness - power(slots[0])) / rate * w;
    const Expression curvature = (steepness + o.beta) / rate + 2 * o.l2_regularization_strength;
    const double l1 = o.l1_regularization_strength;
    // The rate is divided by, and is 0 as a schedule that warms up begins; without gradients so far, and nothing to
    // begin with, so is the curvature.
    const Expression rests = logical_or(rate == 0, curvature == 0);
    return {where(rests, w, (clip(linear, -l1, l1) - linear) / curvature), where(rests, slots[0], sum),
            where(rests, slots[1], linear)};
  }

  const FtrlOptions o;
};

template <class SquareRule, class Options>
std::unique_ptr<Pipeline> make(const char* name, const Options& o) {
  return std::make_unique<Pipeline>(name, common_of(o), std::make_unique<SquareRule>(o));
}

void check_positive(const char* optimizer, const char* option, double value) {
  TW_CHECK_USER(value >= 0, optimizer, "0 switches it off", "expected {} of 0 or more, got {}", option, value);
}

}  // namespace

RMSprop::RMSprop(const RMSpropOptions& o) : Optimizer(make<RMSpropRule>("rmsprop", o)) {
  check_part("rmsprop", ".rho", o.rho), check_part("rmsprop", ".momentum", o.momentum);
}

Adagrad::Adagrad(const AdagradOptions& o) : Optimizer(make<AdagradRule>("adagrad", o)) {
  check_positive("adagrad", ".initial_accumulator_value", o.initial_accumulator_value);
}

Adadelta::Adadelta(const AdadeltaOptions& o) : Optimizer(make<AdadeltaRule>("adadelta", o)) {
  check_part("adadelta", ".rho", o.rho);
}

Ftrl::Ftrl(const FtrlOptions& o) : Optimizer(make<FtrlRule>("ftrl", o)) {
  check_positive("ftrl", ".initial_accumulator_value", o.initial_accumulator_value);
  check_positive("ftrl", ".l1_regularization_strength", o.l1_regularization_strength);
  check_positive("ftrl", ".l2_regularization_strength", o.l2_regularization_strength);
  check_positive("ftrl", ".l2_shrinkage_regularization_strength", o.l2_shrinkage_regularization_strength);
  TW_CHECK_USER(o.learning_rate_power <= 0, "ftrl", "-0.5 is usual",
                "expected .learning_rate_power of 0 or less, got {}", o.learning_rate_power);
}

}  // namespace thalweg::optim
