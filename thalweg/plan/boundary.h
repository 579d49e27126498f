#pragma once

// What a graph shares with the world: memory that comes from outside, and memory where its outcome is to be left.
#include "thalweg/graph/graph.h"

namespace thalweg {

struct Boundary {
  std::vector<ValueId> inputs;  // arguments, carries, variables at entry, constants, host numbers, the random state
  struct Output {
    ValueId value;
    int overwrites = -1;  // index into inputs: the variable whose memory it takes
  };
  // Results, then updates of carries and variables, then what stands in the memory of those before them: of
  //   %1 = scale %w;  %2 = put_rows %1 …;  w -> %2   the value %1, unless somebody reads w or %1 later
  std::vector<Output> outputs;
};

// Makes every outcome the work of a node of its own, so that it can be written where it belongs: copies are added for
// results that are arguments or views, and for updates that would destroy what is still read, or that could be left
// half done by a node that fails later.
//   variable w %0 -> %1;  %1 = add %0 %2;  %3 = exp %0;   becomes   … %3 = exp %0;  %4 = copy %1;   w -> %4
Boundary settle_outputs(Graph& graph);

}  // namespace thalweg
