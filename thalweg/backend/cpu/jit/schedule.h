#pragma once

// The order in which a recording is computed.
#include "thalweg/backend/cpu/jit/recording.h"

namespace thalweg::jit {

struct Step {
  int node;         // to compute, or whose value is stored
  int output = -1;  // where to; -1: computed
};

struct Schedule {
  std::vector<int> invariant;          // what is the same for all elements, constants aside: once, before the loop
  std::vector<Step> body;              // one turn of the loop
  std::vector<std::vector<int>> uses;  // of each node by the body, ascending positions in it
  std::vector<char> is_invariant;      // constants included
  int pressure = 0;                    // the most values of the body that live at once
};

// masks_apart: masks stand in registers of their own and do not count.
Schedule make_schedule(const Recording& recording, bool masks_apart);

}  // namespace thalweg::jit
