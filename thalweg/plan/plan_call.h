#pragma once

#include <optional>

#include "thalweg/plan/plan_state.h"

namespace thalweg {

// Memory that the plans of one function run in, one caller at a time. It grows to what the largest plan needs, and
// shrinks where a plan may not hold that much beside what it has outside of it.
class Lane {
 public:
  std::byte* workspace(std::int64_t bytes, std::int64_t most);

 private:
  Ref<Buffer> buffer_;
};

struct CallOutcome {
  Tensors results;
  std::int64_t variable_copies = 0;
};

// Throws if something that the trace referred to has died.
void check_alive(const PlanState& plan);

// Others have taken the place of variables that the trace holds.
bool holds_retired(const Graph& traced);

// Runs the plan once: takes its turn at the variables, binds memory, runs the steps. `call` numbers the call for random
// ops. Nothing: when its turn came it held variables that are retired, and another plan is to be made.
std::optional<CallOutcome> run_plan(PlanState& plan, const Tensors& arguments, Lane& lane, std::uint64_t call);

// Whether a tape of this thread watches an argument or a variable that the plan reads.
bool is_watched(const PlanState& plan, const Tensors& arguments);
// The same call as an op that those tapes record. Assignments happen now, once.
std::optional<Tensors> run_watched(PlanState& plan, const Tensors& arguments, std::uint64_t call);

}  // namespace thalweg
