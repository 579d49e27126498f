#pragma once

// When a plan updates the variables that it trains: as soon as their gradients are there, or why not.
#include "thalweg/plan/compile.h"

namespace thalweg {

struct UpdateTimes {
  struct Wait {
    std::string reason;  // what they wait for
    int variables = 0;
  };
  int variables = 0;  // trainable ones that a call changes
  int at_once = 0;    // of these: updated as their gradients appear, which frees the gradients
  std::vector<Wait> waits = {};

  std::string describe() const;
};

UpdateTimes update_times(const Compiled& compiled);

}  // namespace thalweg
