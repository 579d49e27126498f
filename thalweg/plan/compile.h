#pragma once

// From a traced graph to something that runs: the passes, the choice of a plan within the budget, and its lowering.
#include "thalweg/plan/executable.h"

namespace thalweg {

struct CompileOptions {
  std::int64_t memory_budget = 0;         // 0: none
  std::vector<int> batch_arguments = {};  // empty: all whose leading size is that of the first argument
};

// How much time is given for memory. 0: everything is kept. 1 to 3: a third, two thirds, all of the cheap nodes are run
// again. 4 to 7: so are the nodes of the first quarter, half, three quarters, all of the forward pass, from values kept
// at a few cuts.
inline constexpr int most_effort = 7;

// A way to run the graph, in the fixed order in which they are tried: the first that fits the budget is taken, so that
// a smaller budget never takes more memory.
struct Rung {
  std::int64_t parts = 1;  // of the batch
  int effort = 0;
  int lanes = 1;  // parts that run at the same time, each on one thread
  std::string describe() const;
};

struct Compiled {
  Graph graph;  // after all passes
  Boundary boundary;
  MemoryPlan memory;
  std::shared_ptr<const Executable> executable;
  Rung rung;
  int recomputed = 0;             // values; where the batch is cut, in one part
  std::int64_t state_bytes = 0;   // variables and constants
  std::int64_t result_bytes = 0;  // of one call
  std::int64_t peak_bytes() const {
    return state_bytes + result_bytes + (executable ? memory::rounded(executable->workspace()) : 0);
  }
};

// All passes in their order; `after` sees the graph after each.
Graph run_passes(Graph graph, const std::function<void(const char* pass, const Graph&)>& after = {});

// The graph as traced, ready to run within the budget; throws resource_exhausted if no plan fits, before any work.
Compiled compile(const Graph& traced, const CompileOptions& options);

}  // namespace thalweg
