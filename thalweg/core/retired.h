#pragma once

// Variables that others have taken the place of, as state does that grows. A trace that holds one is out of date.
#include "thalweg/core/variable.h"

namespace thalweg {

// Functions that were traced with the variable are traced anew.
void retire(const Variable& variable);
bool is_retired(const Variable& variable);
std::uint64_t retired_count();

}  // namespace thalweg
