#pragma once

// Trading time for memory: values that are needed again much later are computed again then, instead of being kept.
#include "thalweg/graph/graph.h"

namespace thalweg {

// The nodes up to the moment of the largest memory (the forward pass), and which of them are run again after it.
struct Recomputation {
  int boundary = 0;              // nodes [0, boundary) stand before that moment
  std::vector<bool> again = {};  // by node
};

// Runs the chosen nodes again, each right before the first node behind the boundary that needs what it makes. The same
// kernels on the same values: the same bits.
//   %1 = gelu %0; … ; %9 = matmul %1 %8     becomes     %1 = gelu %0; … ; %10 = gelu %0; %9 = matmul %10 %8
Graph recompute_nodes(const Graph& graph, const Recomputation& choice);

// Cheap nodes (no products) whose results are larger than what must be kept instead; the best `share` of them by bytes
// freed for each byte moved.
Recomputation choose_cheap(const Graph& graph, int boundary, double share);
// The forward pass is cut into `segments`, and all nodes of the first `share` of it are run again from the values at
// the cuts; cheap nodes everywhere.
Recomputation choose_segments(const Graph& graph, int boundary, int segments, double share);

// The node at which most bytes are alive.
int find_boundary(const Graph& graph);

}  // namespace thalweg
