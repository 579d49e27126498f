#pragma once

#include "thalweg/plan/plan_state.h"

namespace thalweg {

// Throws internal with the worst difference, if the compiled step's results, gradients or variables are further from
// the eager ones than rounding explains.
void compare_with_eager(const PlanState& plan, const Tensors& compiled, const Tensors& eager,
                        const std::vector<Tensor>& compiled_variables, const std::vector<Tensor>& eager_variables);

}  // namespace thalweg
