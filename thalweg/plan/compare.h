#pragma once

#include "thalweg/plan/plan_state.h"

namespace thalweg {

// While it lives, functions that this thread calls run op by op, as they do for the other side: as parts of one trace.
class EagerScope {
 public:
  EagerScope();
  ~EagerScope();
  EagerScope(const EagerScope&) = delete;
  static bool active();

 private:
  bool outer_;
};

// How many times the usual tolerance a comparison allows, by number, where not once; an empty list: nowhere. Gradients
// whose terms cancel (that of a bias that a softmax takes no notice of, say) are nothing but rounding of larger ones,
// and updates may make it as large as any (Adam divides by its root).
struct Roundings {
  std::vector<double> results;    // and gradients, which come after them
  std::vector<double> variables;  // of the trace, left with what follows from such a gradient
};
// compiled, eager: results and gradients of a plan whose trace with gradients is there.
Roundings find_roundings(const PlanState& plan, const Tensors& compiled, const Tensors& eager);

// What a call gave: its results and gradients, and what it left the variables with.
struct StepOutcome {
  Tensors results;
  std::vector<Tensor> variables;
};
// Throws internal with the first difference, if the compiled step's results, gradients or variables, which had the
// values `before`, are further from the eager ones than rounding explains.
void compare_with_eager(const PlanState& plan, const StepOutcome& compiled, const StepOutcome& eager,
                        const std::vector<Tensor>& before, const Roundings& roundings);

}  // namespace thalweg
