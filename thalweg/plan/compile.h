#pragma once

// From a traced graph to something that runs: the passes, the choice of a plan within the budget, and its lowering.
#include "thalweg/plan/executable.h"

namespace thalweg {

struct CompileOptions {
  std::int64_t memory_budget = 0;  // 0: none
};

struct Compiled {
  Graph graph;  // after all passes
  Boundary boundary;
  MemoryPlan memory;
  std::shared_ptr<const Executable> executable;
};

// All passes in their order; `after` sees the graph after each.
Graph run_passes(Graph graph, const std::function<void(const char* pass, const Graph&)>& after = {});

Compiled compile(Graph graph, const CompileOptions& options);

}  // namespace thalweg
