#pragma once

#include "thalweg/core/precision.h"

namespace thalweg {

// What a step of this precision is compiled for on this machine. Where bf16 products are not faster than f32 ones it is
// f32; then, and where f16 products are computed in f32, a warning says so once.
Precision usable_precision(Precision asked);

}  // namespace thalweg
