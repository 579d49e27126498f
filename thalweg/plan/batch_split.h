#pragma once

// A step over a large batch as a loop over parts of it. Values are found to be per example, sums over examples, or the
// same for all; sums are added up over the loop, and everything that follows from them runs once, after it.
#include "thalweg/plan/compile.h"

namespace thalweg {

struct BatchSplit {
  Graph graph;                 // with one `micro_batches` node for each loop
  std::string obstacle;        // why it cannot be split; empty: it was
  std::int64_t too_large = 0;  // bytes beyond the limit that a loop needs at least; it then was not split either
};

// Cuts the batch into the rung's parts. The arguments named carry examples along their leading axis. A loop that needs
// more bytes than the limit is seen before its memory is packed.
BatchSplit split_batch(const Graph& graph, const std::vector<int>& batch_arguments, const Rung& rung,
                       std::int64_t limit = std::int64_t{1} << 62);

// What loops over so many parts would be, without making them.
struct BatchLoops {
  std::string obstacle;
  bool add_up = false;  // where they add nothing up, as many parts cost no more than one
};
BatchLoops batch_loops(const Graph& graph, const std::vector<int>& batch_arguments, std::int64_t parts);

// The arguments named in `asked`, or all whose leading size is that of the first argument.
std::vector<int> batch_arguments(const Graph& graph, const std::vector<int>& asked);

}  // namespace thalweg
