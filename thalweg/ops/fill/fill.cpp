#include "thalweg/ops/fill/fill.h"

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/ops/fill/fill_op.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct FillOp : Fill {};
TW_FIELDS(FillOp, shape, dtype, real, integer, is_integer)

Specs infer(const FillOp& op, Inputs) { return {Spec{op.dtype, op.shape}}; }

void run(const FillOp& op, Arrays, Arrays out) {
  cpu::fill_elements(out[0].data, out[0].size(), scalar(op.value(), op.dtype).impl().data, size_of(op.dtype));
}

[[maybe_unused]] bool differentiable(const FillOp&) { return false; }

}  // namespace

TW_DEFINE_OP(fill, FillOp)

Tensor fill(const Shape& shape, Number value, DType dtype) {
  const FillOp op{{shape, dtype, value.real, value.integer, value.is_integer}};
  return apply(fill_info(), op, {})[0];
}

}  // namespace thalweg
