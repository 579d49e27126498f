#pragma once

// What is in memory while a plan runs: for reports and errors.
#include "thalweg/plan/compile.h"
#include "thalweg/plan/plan.h"

namespace thalweg {

// Bytes of the arena that are alive while a node runs.
struct Moment {
  const Node* node;
  std::int64_t values, workspace;
};

// A moment for every node. A loop over parts of the batch shows the nodes of one turn.
std::vector<Moment> timeline(const Compiled& compiled);

// The largest things in memory at the worst moment, named by layer and op; at most `count`.
std::vector<MemoryItem> largest_items(const Compiled& compiled, std::size_t count);

// The parts of a plan's peak.
struct MemoryParts {
  std::int64_t trainable = 0, other_variables = 0, constants = 0, results = 0;
  std::int64_t arena = 0;  // with the table of addresses that lies behind it
  std::int64_t state() const { return trainable + other_variables + constants + results; }
};
MemoryParts memory_parts(const Compiled& compiled);

// "encoder/dense matmul"
std::string describe(const Node& node);

}  // namespace thalweg
