#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/core/scalar.h"
#include "thalweg/core/tensor.h"

namespace thalweg {

// Lengths that arguments are padded to, so that calls with many lengths share few plans:
//   {.buckets = {.axis = 1, .sizes = {64, 128, 256, 512}}}
// A callable that takes one tensor more than it is called with is given the mask: boolean [size], true where the
// arguments had something of their own. Results are as the callable makes them.
struct Buckets {
  int axis = 1;                          // of the arguments
  std::vector<std::int64_t> sizes = {};  // none: arguments are taken as they are
  Number value = 0;                      // what stands behind the end
  std::vector<int> arguments = {};       // their numbers; empty: all that are as long along the axis as the first
};

// The arguments padded to the smallest size that holds them, and, if it is asked for, the mask behind them. Tensors
// without values get the shape alone.
Tensors pad_to_bucket(const Buckets& buckets, const std::string& function, Tensors arguments, bool with_mask);

}  // namespace thalweg
