#pragma once

// Whether 16-bit products are worth it on this processor: found by a short run, once, when somebody asks.
#include <string>

#include "thalweg/core/dtype.h"

namespace thalweg::cpu {

struct ProductSpeed {
  double ratio = 0;                                          // the time of an f32 product over that of a 16-bit one
  bool correct = false;                                      // its results are those of f32, but for rounding
  bool is_fast() const { return correct && ratio >= 1.25; }  // casts have to be paid for as well
};

// f16 or bf16. Takes a few milliseconds the first time.
const ProductSpeed& product_speed(DType dtype);

// In a sentence, for people.
std::string describe_products(DType dtype);

}  // namespace thalweg::cpu
