#pragma once

#include <string>
#include <vector>

#include "tests/golden_runner/case.h"
#include "tests/golden_runner/program.h"
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

// The program of a case; null: the op is not known.
const Program* find_program(const std::string& group, const std::string& op);

// One case of a group that is run, with its floats in `dtype`. Throws Malformed when the file lacks a tensor.
Result run_case(const std::string& group, const Case& c, const Program& program, const SafetensorsFile& tensors,
                DType dtype);

}  // namespace thalweg::golden
