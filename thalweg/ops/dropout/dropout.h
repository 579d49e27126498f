#pragma once

#include <optional>

#include "thalweg/core/tensor.h"

namespace thalweg {

struct DropoutOptions {
  std::optional<std::uint64_t> seed = {};
};

// x with a fraction `rate` of its elements set to zero and the others divided by 1 - rate. Which ones is a pure
// function of the seed (or of the call's number) and the element's place: the backward pass finds them again and keeps
// nothing.
TW_API Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options = {});

}  // namespace thalweg
