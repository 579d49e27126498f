#pragma once

// The attributes of `fused`.
#include "thalweg/ops/fused/branches.h"

namespace thalweg {

struct FusedProgram {
  std::shared_ptr<const Program> program = std::make_shared<const Program>();
  Ints dtypes = {};                               // of the outputs; none: all have that of the float inputs
  std::shared_ptr<const Branches> branches = {};  // of a program in a plan
};

// The attributes that a node of `fused` has.
const FusedProgram& fused_of(const void* op);

void visit_fused(FusedProgram& op, FieldVisitor& visitor);
Specs infer_fused(const FusedProgram& op, Inputs in);
void run_fused(const FusedProgram& op, Arrays in, Arrays out);

}  // namespace thalweg
