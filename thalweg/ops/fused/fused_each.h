#pragma once

// An elementwise program over several sets of operands: the update of many variables as one node.
#include "thalweg/ops/program.h"

namespace thalweg {

// The program and the dtypes of a `fused` node over so many sets. Inputs and outputs of the node: those of the first
// set, then those of the second … An output may stand in the place of an input of its own set, and of no other.
std::shared_ptr<const void> make_fused_each(const void* fused, std::int64_t sets);

// Whether two nodes of `fused` are the same program, making the same dtypes.
bool same_program(const void* fused, const void* other);

}  // namespace thalweg
