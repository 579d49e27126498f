#pragma once

// Checks of one sample that have a file of their own.
#include "tests/support/sample.h"

namespace thalweg::testing {

using Check = void (*)(const Sample&);

// The fields of every op that the sample calls have names, and an op made anew from them is the same.
void check_fields(const Sample& sample);

// Every op that the sample calls, given its inputs chunk by chunk, makes what its batch rule says of the outputs.
void check_batch(const Sample& sample);

}  // namespace thalweg::testing
