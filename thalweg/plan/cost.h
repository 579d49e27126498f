#pragma once

#include "thalweg/graph/graph.h"

namespace thalweg {

// Multiplications and additions of the node's products; 0 for nodes that only move or transform elements.
double flops_of(const Graph& graph, const Node& node);
// Estimated seconds on one core. Only ratios matter: 80 GFLOP/s and 10 GB/s are what a Zen 4 core does.
double cost_of(const Graph& graph, const Node& node);

}  // namespace thalweg
