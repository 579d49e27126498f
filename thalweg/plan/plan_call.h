#pragma once

#include "thalweg/plan/plan_state.h"

namespace thalweg {

// Memory that the plans of one function run in, one caller at a time. It grows to what the largest plan needs.
class Lane {
 public:
  std::byte* workspace(std::int64_t bytes);

 private:
  Ref<Buffer> buffer_;
};

struct CallOutcome {
  Tensors results;
  std::int64_t variable_copies = 0;
};

// Runs the plan once: takes its turn at the variables, binds memory, runs the steps. `call` numbers the call for random
// ops.
CallOutcome run_plan(PlanState& plan, const Tensors& arguments, Lane& lane, std::uint64_t call);

}  // namespace thalweg
