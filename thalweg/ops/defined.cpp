#include "thalweg/ops/defined.h"

#include "thalweg/core/check.h"

namespace thalweg {

void refuse_undefined(const char* op, int input) {
  TW_FAIL(invalid_argument, op, "an unconnected gradient is undefined: ask .defined() first, or use Unconnected::zero",
          "expected a tensor as input {}, got an undefined one", input);
}

void check_all_defined(const char* op, std::span<const Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined()) refuse_undefined(op, static_cast<int>(i));
}

}  // namespace thalweg
