#pragma once

#include "thalweg/thalweg.h"

namespace thalweg::testing {

// y = sum of x, as rows.
inline data::Dataset rows(std::int64_t count, std::uint64_t seed = 1) {
  const Tensor x = random::normal({count, 3}, {.seed = seed});
  return data::from_tensor_slices({x, reduce_sum(x, {.axes = {1}, .keepdims = true})});
}

}  // namespace thalweg::testing
