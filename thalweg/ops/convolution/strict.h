#pragma once

#include "thalweg/core/export.h"

namespace thalweg::config {

// Convolutions of 3 x 3 taps in f32 with enough channels take a method with fewer multiplications (Winograd's), whose
// rounding errors are two to five times those of plain sums and which spreads a value that is not finite over the
// pixels beside it. Strict convolutions sum plain products; theirs and their gradients' time doubles or triples.
// Holds for convolutions made from now on, on all threads: a traced function and the gradients of a recorded
// convolution keep what they were made with.
TW_API void strict_convolutions(bool strict);
TW_API bool strict_convolutions();

}  // namespace thalweg::config
