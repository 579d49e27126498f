#pragma once

// A step over a large batch as a loop over parts of it. Values are found to be per example, sums over examples, or the
// same for all; sums are added up over the loop, and everything that follows from them runs once, after it.
#include "thalweg/plan/compile.h"

namespace thalweg {

struct BatchSplit {
  Graph graph;           // with one `micro_batches` node for each loop
  std::string obstacle;  // why it cannot be split; empty: it was
};

// Cuts the batch into the rung's parts. The arguments named carry examples along their leading axis.
BatchSplit split_batch(const Graph& graph, const std::vector<int>& batch_arguments, const Rung& rung);
// Whether loops over parts of the batch add anything up. Where they do not, as many parts cost no more than one.
bool adds_parts(const BatchSplit& split);

// The arguments named in `asked`, or all whose leading size is that of the first argument.
std::vector<int> batch_arguments(const Graph& graph, const std::vector<int>& asked);

}  // namespace thalweg
