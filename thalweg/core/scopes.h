#pragma once

// Switches of this thread that change what a call computes. A function keeps a plan for each setting.
#include <cstdint>

#include "thalweg/core/export.h"

namespace thalweg {

struct Scopes {
  bool training = false;
  friend bool operator==(const Scopes&, const Scopes&) = default;
};

TW_API Scopes& scopes();

}  // namespace thalweg
