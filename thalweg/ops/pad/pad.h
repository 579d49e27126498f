#pragma once

#include <utility>
#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

// constant: one value; reflect: mirrored about the edge element (2 1 | 0 1 2); symmetric: about the edge (1 0 | 0 1 2).
enum class PadMode { constant, reflect, symmetric };

using Paddings = std::vector<std::pair<std::int64_t, std::int64_t>>;  // for every axis: places before, places after

struct Pad {
  PadMode mode = PadMode::constant;
  Number value = 0;
};
// x with places added around it: tw::pad(x, {{1, 1}, {0, 2}}).
TW_API Tensor pad(const Tensor& x, const Paddings& paddings, const Pad& options = {});

}  // namespace thalweg
