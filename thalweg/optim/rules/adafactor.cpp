#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/optim/pipeline.h"

namespace thalweg::optim {
namespace {

Tensor root_mean_square(const Tensor& x) { return sqrt(reduce_mean(square(x))); }

struct AdafactorRule : CompositeRule {
  explicit AdafactorRule(const AdafactorOptions& options) : o(options) {}

  // The means of the last two axes, or the second moment itself where there are not two.
  std::vector<Slot> slots(const Variable& variable) const override {
    const Shape& shape = variable.shape();
    const int rank = shape.rank();
    if (rank < 2) return {{"velocity", shape}};
    return {{"row_mean", shape.prefix(rank - 1)},
            {"column_mean", concatenate(shape.prefix(rank - 2), shape.suffix(rank - 1))}};
  }

  Tensors scalars(const Step& step) override {
    const Tensor decaying = minimum(step.rate, 1 / sqrt(step.t));
    const Tensor rate = o.relative_step ? decaying : step.rate;
    return {minimum(rate, 1 / sqrt(step.t)), 1 - pow(step.t, o.beta_2_decay)};
  }

  Tensors change(const Tensor& w, const Tensor& g, const Tensors& slots, const Tensors& scalars) const override {
    const Tensor squares = square(g) + o.epsilon_1;
    const auto mean = [&](const Tensor& before, const Tensor& now) {
      return scalars[1] * before + (1 - scalars[1]) * now;
    };
    Tensors changed{w};
    Tensor step;
    if (slots.size() == 1) {
      changed.push_back(mean(slots[0], squares));
      step = g / sqrt(changed[1]);
    } else {
      const Tensor rows = mean(slots[0], reduce_mean(squares, {.axes = -1}));
      const Tensor columns = mean(slots[1], reduce_mean(squares, {.axes = -2}));
      // One factor after the other: where a row and a column have no gradient, the product of their moments is too
      // small for a number.
      const Tensor of_rows = sqrt(reduce_mean(rows, {.axes = -1, .keepdims = true})) / sqrt(rows);
      step = g * expand_dims(of_rows, -1) * expand_dims(1 / sqrt(columns), -2);
      changed.push_back(rows), changed.push_back(columns);
    }
    const Tensor length = maximum(1, root_mean_square(step) / o.clip_threshold);
    changed[0] = w - maximum(o.epsilon_2, root_mean_square(w)) * scalars[0] * step / length;
    return changed;
  }

  const AdafactorOptions o;
};

}  // namespace

Adafactor::Adafactor(const AdafactorOptions& o)
    : Optimizer(std::make_unique<Pipeline>("adafactor", common_of(o), std::make_unique<AdafactorRule>(o))) {
  TW_CHECK_USER(o.clip_threshold > 0, "adafactor", "1 is usual", "expected .clip_threshold above 0, got {}",
                o.clip_threshold);
}

}  // namespace thalweg::optim
