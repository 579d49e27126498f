#include "thalweg/core/gradient.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/creation/creation.h"

namespace thalweg {

Gradient::Gradient(Tensor values, Tensor indices, Shape shape)
    : values_(std::move(values)), indices_(std::move(indices)), shape_(shape) {}

Tensor Gradient::dense() const {
  if (!is_sparse()) return values_;
  TW_FAIL(unimplemented, "gradient", "wait for gather", "row-sparse gradients are not dense yet");
}

}  // namespace thalweg
