#pragma once

#include "thalweg/core/op.h"

namespace thalweg {

// The shape that all broadcast to; an error names the op and the shapes that do not fit.
Shape broadcast_shapes(const char* op, Inputs in);

// How one operand is walked while the broadcast shape is walked in order: its element stride on each merged axis.
struct BroadcastWalk {
  int rank = 0;
  std::int64_t sizes[max_rank];
  std::int64_t strides[max_rank];  // 0 where the operand repeats; the innermost is 0 or 1
  bool whole = false;              // same elements in the same order
  bool scalar = false;
};
BroadcastWalk broadcast_walk(const Shape& operand, const Shape& result);

}  // namespace thalweg
