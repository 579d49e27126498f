#pragma once

#include <optional>

#include "tests/golden_runner/runner.h"

namespace thalweg::golden {

// One case of the group `precision`; none: the op is not known.
std::optional<Result> run_precision(const Case& c, const SafetensorsFile& tensors, DType dtype);

}  // namespace thalweg::golden
