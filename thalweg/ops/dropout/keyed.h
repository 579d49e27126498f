#pragma once

// Dropout by a key that has been drawn: what ops share that drop elements of their own.
#include <cmath>

#include "thalweg/ops/random/key.h"

namespace thalweg {

struct KeyedDropout {
  double rate = 0;
  random::Key key = {};
  std::int64_t first = 0;  // the number of the first element among those that the key is for

  // An element stays when its word is at least rate * 2^32; rate 1 drops them all.
  std::uint64_t threshold() const { return static_cast<std::uint64_t>(std::llround(rate * 0x1p32)); }
  double scale() const { return rate < 1 ? 1 / (1 - rate) : 0; }  // of those that stay
};

// The state is undefined where nothing is traced.
Tensor dropout(const Tensor& x, const KeyedDropout& keyed, const Tensor& state);

}  // namespace thalweg
