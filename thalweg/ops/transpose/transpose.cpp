#include "thalweg/ops/transpose/transpose.h"

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Transpose {
  Ints perm;  // each axis of the input once
};
TW_FIELDS(Transpose, perm)

Specs infer(const Transpose& op, Inputs in) {
  const Shape& shape = in[0].shape;
  TW_CHECK_USER(op.perm.size() == shape.rank(), "transpose", "name every axis once",
                "expected a permutation of {} axes for {}, got {}", shape.rank(), shape, op.perm);
  Ints sizes;
  for (int i = 0; i < shape.rank(); ++i) {
    TW_CHECK_USER(op.perm.contains(i), "transpose", "name every axis once",
                  "expected a permutation of the axes of {}, got {}: axis {} is missing", shape, op.perm, i);
    sizes.push_back(shape[static_cast<int>(op.perm[i])]);
  }
  return {Spec{in[0].dtype, Shape(sizes)}};
}

// Moving axes of size 1 moves no element.
std::int64_t alias(const Transpose& op, Inputs in) {
  std::int64_t last = -1;
  for (const std::int64_t axis : op.perm) {
    if (in[0].shape[static_cast<int>(axis)] == 1) continue;
    if (axis < last) return -1;
    last = axis;
  }
  return 0;
}

void run(const Transpose& op, Arrays in, Arrays out) {
  const Ints strides = cpu::row_major_strides(in[0].shape());
  Ints from;
  for (const std::int64_t axis : op.perm) from.push_back(strides[static_cast<int>(axis)]);
  cpu::strided_copy(in[0].data, from, out[0].data, cpu::row_major_strides(out[0].shape()), out[0].shape(),
                    size_of(in[0].dtype()));
}

Gradients gradient(const Transpose& op, const Kept&, const Tensors& dy, Needs) {
  Ints inverse = op.perm;
  for (int i = 0; i < op.perm.size(); ++i) inverse[static_cast<int>(op.perm[i])] = i;
  return {transpose(dy[0], inverse)};
}

BatchStates batch_rule(const Transpose& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return named_axes_rule(in, states, examples, {first_axes(in[0].rank())}, {op.perm});
}

Transpose lifted(const Transpose& op, Inputs, std::int64_t) { return {with_front(0, shifted_axes(op.perm))}; }

}  // namespace

TW_DEFINE_OP(transpose, Transpose)

Tensor transpose(const Tensor& x, const Ints& perm) {
  check_defined("transpose", x);
  Ints axes;
  for (const std::int64_t axis : perm) axes.push_back(resolve_axis("transpose", axis, x.rank()));
  return apply(transpose_info(), Transpose{axes}, {x})[0];
}

Tensor transpose(const Tensor& x) {
  check_defined("transpose", x);
  Ints reversed;
  for (int i = x.rank() - 1; i >= 0; --i) reversed.push_back(i);
  return transpose(x, reversed);
}

}  // namespace thalweg
