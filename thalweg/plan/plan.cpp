#include "thalweg/plan/plan.h"

#include "thalweg/plan/plan_state.h"

namespace thalweg {

Plan::Plan(std::unique_ptr<PlanState> state) : state_(std::move(state)) {}
Plan::~Plan() = default;

std::int64_t Plan::peak_bytes() const { return state_->compiled.peak_bytes(); }
int Plan::micro_batches() const { return static_cast<int>(state_->compiled.rung.parts); }
int Plan::recomputed() const { return state_->compiled.recomputed; }

}  // namespace thalweg
