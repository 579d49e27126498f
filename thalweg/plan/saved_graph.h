#pragma once

// What a function keeps of a trace, without the code that was traced: enough to make the plan again.
#include <atomic>

#include "thalweg/core/scopes.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

struct SavedGraph {
  Scopes scopes;                                     // while it was traced
  SmallVector<int, 4> argument_sizes, result_sizes;  // lengths of the lists among them
  Graph graph;                                       // before the passes
  bool with_mask = false;                            // the last argument may be the mask of the buckets
  bool has_custom_gradient = false;                  // the graph does not hold its rule
};

// The signature that its calls have; see signature.h.
std::string signature_of(const SavedGraph& saved);

// How the calls of loaded functions are numbered for random ops: as they went on in the process that saved them.
struct CallNumbers {
  std::uint64_t seed = 0;
  std::atomic<std::uint64_t> next{0};
};

}  // namespace thalweg
