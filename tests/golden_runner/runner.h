#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/golden_runner/case.h"
#include "thalweg/interop/safetensors.h"

namespace thalweg::golden {

struct Problem {
  std::string where, what;  // "gradient of input 1", "got …, want …"
};

struct Result {
  std::vector<Problem> problems;
  double worst = 0;  // the largest error as a part of what is allowed
  bool passed() const { return problems.empty(); }
};

// One case with its floats in `dtype`; none: its op is not known. Throws Malformed when the file lacks a tensor.
std::optional<Result> run_case(const std::string& group, const Case& c, const SafetensorsFile& tensors, DType dtype);

}  // namespace thalweg::golden
