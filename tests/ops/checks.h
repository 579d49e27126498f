#pragma once

// Checks of one sample that have a file of their own.
#include "tests/support/sample.h"

namespace thalweg::testing {

using Check = void (*)(const Sample&);

// The fields of every op that the sample calls have names, and an op made anew from them is the same.
void check_fields(const Sample& sample);

}  // namespace thalweg::testing
