#pragma once

#include "thalweg/graph/graph.h"

namespace thalweg {

// Orders the nodes so that less is alive at once: small computations on small values are done as soon as they can be,
// and a variable is updated as soon as its gradient is there, which frees the gradient. An update waits for the last
// reader of the old value, and for the last node that may refuse its input: a failed call changes nothing.
//   backward 2; backward 1; update 2; update 1     becomes     backward 2; update 2; backward 1; update 1
Graph schedule(Graph graph);

}  // namespace thalweg
