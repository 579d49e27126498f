#pragma once

// Programs that a scalar decides: where(due, new value, old value), as optimizers write when they accumulate. One look
// at the scalar tells which half of the program is needed; and where an old value stays, in its place, nothing is.
#include <memory>
#include <optional>
#include <utility>

#include "thalweg/ops/program.h"

namespace thalweg {

// What is left of a program when a boolean is known.
struct Branch {
  Program program;
  std::vector<int> reads;                     // its inputs, as inputs of the whole
  std::vector<int> makes;                     // its outputs, as outputs of the whole
  std::vector<std::pair<int, int>> inherits;  // {output, input}: outputs that are inputs then
};

struct Branches {
  int predicate;  // the input that decides
  Branch if_true, if_false;
};

// Null: no input decides anything.
std::shared_ptr<const Branches> branches_of(const Program& program);

// The one that the inputs choose; null: the predicate is no scalar.
const Branch* chosen_branch(const Branches& branches, Arrays in);

// Runs the branch that the inputs choose; false if that is not possible: the predicate is no scalar, or an output that
// is an input does not stand in its place.
bool run_branch(const Branches& branches, Arrays in, Arrays out);

}  // namespace thalweg
