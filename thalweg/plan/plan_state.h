#pragma once

// Inside a plan: what was traced, what became of it, and what a call needs to run it.
#include <atomic>
#include <mutex>
#include <optional>

#include "thalweg/core/scopes.h"
#include "thalweg/core/variable_storage.h"
#include "thalweg/graph/trace.h"
#include "thalweg/plan/compile.h"
#include "thalweg/plan/differentiable.h"
#include "thalweg/plan/plan.h"

namespace thalweg {

struct PlanState {
  std::string function;
  CompileOptions options;
  Graph traced;
  Compiled compiled;
  std::vector<Trace::Touched> touched;
  std::vector<Trace::Known> known_tensors;                // that the callable captured: see trace.h
  Scopes scopes = {};                                     // while it was traced
  SmallVector<int, 4> argument_sizes = {}, result_sizes;  // lengths of the lists among them
  std::atomic<bool> with_mask{false};                     // the last argument may be the mask of the buckets
  std::optional<std::uint64_t> seed = {};                 // of random ops; none: that of the process
  std::vector<std::shared_ptr<VariableGate>> gates;
  bool assigns = false;
  bool has_custom_gradient = false;  // the graph does not hold its rule
  // Until the first step was compared with the eager one: the trace with all gradients as further results.
  std::unique_ptr<const Graph> with_gradients = {};
  std::vector<std::string> gradient_names = {};
  std::atomic<bool> checked{false};
  std::atomic<std::uint64_t> retired{0};  // variables of the process, when none of its own was among them
  std::atomic<std::int64_t> measured_peak{0};

  // For calls that a tape outside differentiates.
  std::once_flag differentiable_once;
  std::shared_ptr<DifferentiableGraph> differentiable;
};

}  // namespace thalweg
