#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "thalweg/graph/procedure.h"
#include "thalweg/plan/compile.h"

namespace thalweg {

// A graph with its recomputation and order decided, and its memory planned but not packed.
struct Draft {
  Graph graph;
  Boundary boundary;
  MemoryPlan memory;
  int recomputed = 0;
};
Draft make_draft(Graph graph, int effort);
Compiled finish(Draft draft);
std::shared_ptr<const Procedure> make_procedure(Draft draft);

// The plans of one graph, from the fastest to the smallest. For one thread: it remembers what was asked.
class Ladder {
 public:
  // held_bytes: constants that the trace holds besides those of the graph.
  Ladder(Graph graph, const std::vector<int>& batch_arguments, std::int64_t held_bytes = 0);

  std::vector<Rung> rungs() const;
  // Those of the graph with another number of examples; none: the graph is not by examples.
  std::optional<Ladder> resized(std::int64_t examples) const;
  Compiled build(const Rung& rung) const;
  // None if it does not fit, or the batch cannot be cut.
  std::optional<Compiled> build_within(const Rung& rung, std::int64_t budget) const;
  std::int64_t smallest_peak() const;

  const Graph& graph() const { return graph_; }
  const std::vector<int>& batch() const { return batch_; }
  std::int64_t examples() const;
  std::string obstacle() const;  // to cutting the batch; empty: none

 private:
  std::int64_t fixed_bytes() const;  // of any plan

  Graph graph_;
  std::vector<int> batch_;
  std::int64_t held_bytes_;
  // By parts, effort and lanes: bytes that the plan is known to need at least. What was too large is not built again.
  mutable std::map<std::tuple<std::int64_t, int, int>, std::int64_t> least_ = {};
};

// The plans of a graph as traced.
Ladder ladder_of(const Graph& traced, const std::vector<int>& batch_arguments);

}  // namespace thalweg
