#pragma once

// What the text and the JSON of a plan tell.
#include "thalweg/plan/ladder.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/plan/timeline.h"

namespace thalweg {

// The plans that this one was chosen from. Runs the passes again.
Ladder ladder_of(const PlanState& plan);

// Values of queries x keys that attention written by hand makes and tw::attention does not, largest first; those of a
// layer and op together.
struct AttentionValue {
  std::string name;  // "block0/attention softmax %12"
  Spec spec;
  int count = 1;
  std::int64_t bytes = 0;
};
std::vector<AttentionValue> attention_values(const Graph& graph);

// Estimated work of the plan over that of one that keeps everything; 1: the same.
double relative_work(const Compiled& compiled, const Compiled& plain);

}  // namespace thalweg
