#pragma once

#include "thalweg/graph/graph.h"

namespace thalweg {

// Updates of variables by the same program that the schedule put one behind the other become one node:
//   %8 = fused %w0 %g0 %rate;  %9 = fused %w1 %g1 %rate     become     %8, %9 = fused_each %w0 %g0 %rate %w1 %g1 %rate
// Wants outputs settled: then what a node leaves in variables is written over them, and each set has memory of its own.
// A step of many small variables pays one call instead of hundreds; one of large variables wakes the pool once.
Graph group_updates(Graph graph);

}  // namespace thalweg
