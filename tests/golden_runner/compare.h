#pragma once

#include <optional>
#include <string>

#include "tests/golden_runner/case.h"
#include "thalweg/core/tensor.h"

namespace thalweg::golden {

struct Comparison {
  double worst = 0;                    // the largest error as a part of what is allowed
  std::optional<std::string> problem;  // the worst element, or why nothing could be compared
};

// |got - want| <= absolute + relative * |want| for every element; NaN equals NaN, infinities must be equal, integers
// and booleans too. Floats must be of `dtype`. skip_non_finite leaves out elements whose expected value is not finite.
Comparison compare(const Tensor& got, const Tensor& want, DType dtype, const Tolerance& tolerance,
                   bool skip_non_finite = false);

}  // namespace thalweg::golden
