#include <nlohmann/json.hpp>

#include "thalweg/core/check.h"
#include "thalweg/plan/infeasible.h"
#include "thalweg/plan/report.h"
#include "thalweg/plan/update_times.h"

namespace thalweg {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const BudgetAnswer& answer, bool feasible, std::int64_t micro_batches, int recomputed) {
  ordered_json out;
  out["peak_bytes"] = answer.peak_bytes;
  out["budget_bytes"] = answer.budget_bytes > 0 ? ordered_json(answer.budget_bytes) : ordered_json();
  out["feasible"] = feasible;
  out["micro_batches"] = micro_batches;
  out["recomputed"] = recomputed;
  out["largest"] = ordered_json::array();
  for (const auto& item : answer.largest) out["largest"].push_back({{"name", item.name}, {"bytes", item.bytes}});
  out["smallest_feasible_bytes"] = answer.smallest_feasible_bytes;
  out["largest_batch"] = answer.largest_batch ? ordered_json(*answer.largest_batch) : ordered_json();
  return out;
}

ordered_json json_of(const UpdateTimes& times) {
  ordered_json out{{"variables", times.variables}, {"as_gradients_appear", times.at_once}};
  out["waiting"] = ordered_json::array();
  for (const auto& wait : times.waits) out["waiting"].push_back({{"variables", wait.variables}, {"for", wait.reason}});
  return out;
}

}  // namespace

std::string Plan::json() const {
  const Compiled& compiled = state_->compiled;
  const Ladder ladder = ladder_of(*state_);
  const std::int64_t budget = state_->options.memory_budget, measured = state_->measured_peak;
  BudgetAnswer answer{budget, peak_bytes(), ladder.smallest_peak(), {}, largest_items(compiled, 8)};
  if (budget > 0) answer.largest_batch = largest_batch(ladder, budget);
  ordered_json out = json_of(answer, true, micro_batches(), recomputed());
  const MemoryParts parts = memory_parts(compiled);
  out["function"] = state_->function;
  out["precision"] = name_of(dtype_of(state_->traced.precision));
  out["way"] = compiled.rung.describe();
  out["measured_peak_bytes"] = measured > 0 ? ordered_json(measured) : ordered_json();
  out["parts"] = {{"trainable_variables", parts.trainable},
                  {"other_variables", parts.other_variables},
                  {"constants", parts.constants},
                  {"results", parts.results},
                  {"arena", parts.arena}};
  out["arena_lower_bound"] = compiled.memory.lower_bound;
  out["nodes"] = compiled.graph.nodes.size();
  const std::string obstacle = ladder.obstacle();
  out["split_obstacle"] = obstacle.empty() ? ordered_json() : ordered_json(obstacle);
  out["updates"] = json_of(update_times(compiled));
  out["attention_values"] = ordered_json::array();
  for (const auto& value : attention_values(ladder.graph()))
    out["attention_values"].push_back(
        {{"name", value.name}, {"shape", value.spec.shape.to_string()}, {"bytes", value.bytes}});
  return out.dump();
}

std::string InfeasibleBudget::json() const { return json_of(answer_, false, 1, 0).dump(); }

}  // namespace thalweg
