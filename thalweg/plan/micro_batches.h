#pragma once

// The loop over the parts of a batch, as a node.
#include "thalweg/graph/procedure.h"

namespace thalweg {

struct MicroBatches {
  std::shared_ptr<const Procedure> body, tail;  // tail: the last part, if it is shorter; null: there is none
  std::int64_t examples = 0, part = 0;          // of the batch, and of each part but the last
  std::vector<BatchState> inputs;               // rows: cut, along axis 0 of the storage; whole: as it is
  Specs sums;                                   // outputs that are added up; they come first
  Specs rows;                                   // outputs whose parts stand one after the other
  std::vector<std::int64_t> row_bytes;          // of each rows output: bytes of one example
  bool random = false;                          // the last input is the random state
  int lanes = 1;                                // parts that run at the same time, where nothing is added up

  std::int64_t parts() const { return (examples + part - 1) / part; }
};

const OpInfo& micro_batches_info();
const MicroBatches* loop_of(const Node& node);  // null: the node is no loop
std::shared_ptr<const void> make_micro_batches(MicroBatches loop);

}  // namespace thalweg
