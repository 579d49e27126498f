#include "thalweg/plan/plan.h"

#include "thalweg/core/check.h"
#include "thalweg/plan/plan_state.h"

namespace thalweg {

Plan::Plan(std::unique_ptr<PlanState> state) : state_(std::move(state)) {}
Plan::~Plan() = default;

std::int64_t Plan::peak_bytes() const { return state_->compiled.peak_bytes(); }
int Plan::micro_batches() const { return static_cast<int>(state_->compiled.rung.parts); }
int Plan::recomputed() const { return state_->compiled.recomputed; }

std::string Plan::dump(const std::string& pass) const {
  if (pass == "trace") return print(state_->traced);
  if (pass == "plan") return print(state_->compiled.graph);
  std::string found, names = "trace";
  run_passes(state_->traced, [&](const char* name, const Graph& graph) {
    names += fmt::format(", {}", name);
    if (pass == name) found = print(graph);
  });
  TW_CHECK(not_found, !found.empty(), "plan", "\"trace\" is the graph before all passes, \"plan\" what runs",
           "expected one of {}, plan, got \"{}\"", names, pass);
  return found;
}

InfeasibleBudget::InfeasibleBudget(BudgetAnswer answer, const std::string& message, const std::string& hint)
    : Error(ErrorCode::resource_exhausted, "plan", message, hint), answer_(std::move(answer)) {}
InfeasibleBudget::~InfeasibleBudget() = default;

}  // namespace thalweg
