#pragma once

#include "thalweg/backend/cpu/product_speed.h"
#include "thalweg/core/precision.h"

namespace thalweg {

// What a step of this precision is compiled for, with products of this speed: f32 where bf16 ones are not faster. f16
// halves the bytes even where it is not.
Precision usable_precision(Precision asked, const cpu::ProductSpeed& speed);

// The same on this machine. Where the products are not those that were asked for, a warning says so once.
Precision usable_precision(Precision asked);

}  // namespace thalweg
