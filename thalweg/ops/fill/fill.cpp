#include "thalweg/ops/fill/fill.h"

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/scalar.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/fill/fill_op.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct FillOp : Fill {};
TW_FIELDS(FillOp, shape, dtype, real, integer, is_integer)

Specs infer(const FillOp& op, Inputs) { return {Spec{op.dtype, op.shape}}; }

void run(const FillOp& op, Arrays, Arrays out) {
  cpu::fill_elements(out[0].data, out[0].size(), ScalarBytes(op.value(), op.dtype).data(), size_of(op.dtype));
}

FillOp with_batch(const FillOp& op, const BatchState& out, std::int64_t examples) {
  FillOp sized = op;
  sized.shape = resized_batch(op.shape, out, examples);
  return sized;
}

[[maybe_unused]] bool differentiable(const FillOp&) { return false; }

}  // namespace

TW_DEFINE_OP(fill, FillOp)

std::shared_ptr<const void> make_fill(const Shape& shape, Number value, DType dtype) {
  return std::make_shared<const FillOp>(FillOp{{shape, dtype, value.real, value.integer, value.is_integer}});
}

Tensor fill(const Shape& shape, Number value, DType dtype) {
  return apply(fill_info(), make_fill(shape, value, dtype).get(), std::span<const Tensor>())[0];
}

}  // namespace thalweg
