#include "thalweg/plan/plan.h"

#include "thalweg/plan/plan_state.h"

namespace thalweg {

Plan::Plan(std::unique_ptr<PlanState> state) : state_(std::move(state)) {}
Plan::~Plan() = default;

std::int64_t Plan::peak_bytes() const { return state_->peak_bytes(); }

std::int64_t PlanState::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& variable : compiled.graph.variables) bytes += memory::rounded(variable.variable.spec().bytes());
  for (const auto& constant : compiled.graph.constants) bytes += memory::rounded(constant.tensor.bytes());
  return bytes;
}

std::int64_t PlanState::result_bytes() const {
  std::int64_t bytes = 0;
  for (ValueId result : compiled.graph.results)
    bytes += std::max(memory::rounded(compiled.graph.spec(result).bytes()), memory::alignment);
  return bytes;
}

std::int64_t PlanState::peak_bytes() const {
  return state_bytes() + result_bytes() + memory::rounded(compiled.executable->workspace());
}

}  // namespace thalweg
