#pragma once

#include <string>
#include <vector>

#include "thalweg/core/gradient.h"
#include "thalweg/core/living.h"
#include "thalweg/optim/readable.h"

namespace thalweg {

namespace optim {
class Pipeline;
class Multi;
}  // namespace optim

struct LossScaleOptions {
  double initial = 32768;
  std::int64_t growth_steps = 2000;  // so many finite steps in a row double the scale
  double floor = 1;                  // it does not fall below
  std::int64_t max_skips = 50;       // more skipped steps in a row are an error that names the variable
};

// Keeps gradients of 16 bits from vanishing: the loss is multiplied by a scale, and the optimizer divides the gradients
// by it. A step with a gradient that is not finite changes nothing, and halves the scale.
//   tw::LossScale scale;
//   auto gradients = tape.gradient(scale.scale(loss), variables);
//   adam.apply(gradients, variables, {.loss_scale = &scale});
// State is in variables, so that a compiled step reads it at every call.
class TW_API LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options = {});
  LossScale(const LossScale&) = delete;

  Tensor scale(const Tensor& loss) const;  // loss * value()
  const Readable<double>& value() const { return scale_; }
  const Readable<std::int64_t>& skipped() const { return skipped_; }  // steps, all together
  std::vector<Variable> variables() const;

 private:
  friend class optim::Pipeline;
  friend class optim::Multi;

  // Whether a step is made, and the state after it.
  struct Verdict {
    Tensor finite, scale, finite_in_a_row, skipped, skipped_in_a_row;
  };
  // Throws if this would be one skipped step too many. Undefined gradients are passed over. Where `counts` is false
  // the state stays; undefined: it is true.
  Verdict judge(const std::vector<Gradient>& gradients, const std::vector<std::string>& names,
                const Tensor& counts) const;
  Gradient unscaled(const Gradient& gradient, DType variable) const;
  void settle(const Verdict& verdict);

  const LossScaleOptions options_;
  const Living living_;
  Readable<double> scale_;
  Readable<std::int64_t> skipped_;
  Variable finite_in_a_row_, skipped_in_a_row_;
};

}  // namespace thalweg
