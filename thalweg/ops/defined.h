#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

[[noreturn]] void refuse_undefined(const char* op, int input);

// For functions that ask a tensor for its shape or dtype before they call an op: the error names them and the input.
template <class... Inputs>
void check_defined(const char* op, const Inputs&... inputs) {
  int i = 0;
  ((inputs.defined() ? void() : refuse_undefined(op, i), ++i), ...);
}

void check_all_defined(const char* op, std::span<const Tensor> inputs);

}  // namespace thalweg
