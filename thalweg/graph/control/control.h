#pragma once

// Branches and loops as nodes; the nodes hold their code as bodies (body.h).
#include "thalweg/graph/control/body.h"

namespace thalweg {

const OpInfo& cond_info();
const OpInfo& while_loop_info();
const OpInfo& scan_info();
inline bool is_control(const OpInfo& info) {
  return &info == &cond_info() || &info == &while_loop_info() || &info == &scan_info();
}

// carry, y, part = body(carry, slice of xs, captures) for each slice along the leading axis of xs. Inputs of the node:
// the first carry, xs, captures. Outputs: the last carry, the ys stacked along a new leading axis, the sums of the
// parts. A body returns carry, ys, parts.
struct Scan {
  std::shared_ptr<const Body> body;
  std::size_t carries = 0, xs = 0, ys = 0, sums = 0;
  std::int64_t steps = 0;
  int random = -1;                   // the input that is the random state; -1: none
  bool reverse = false;              // from the last slice to the first
  bool ys_begin_with_carry = false;  // the first ys are the carries after each step
};
Tensors apply_scan(Scan op, const TensorList& inputs);

}  // namespace thalweg
