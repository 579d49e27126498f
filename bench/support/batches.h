#pragma once

#include <vector>

#include "thalweg/thalweg.h"

namespace thalweg::bench {

// Arguments of a step: normal numbers, and classes 0 and 1.
inline std::vector<Tensor> make_batch(const std::vector<Spec>& specs) {
  std::vector<Tensor> batch;
  for (const auto& spec : specs)
    batch.push_back(is_float(spec.dtype) ? random::normal(spec.shape, {.dtype = spec.dtype})
                                         : random::uniform(spec.shape, {.low = 0, .high = 2, .dtype = spec.dtype}));
  return batch;
}

}  // namespace thalweg::bench
