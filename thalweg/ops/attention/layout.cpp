#include "thalweg/ops/attention/layout.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg {
namespace {

using enum AttentionLayout;

Shape swapped(const Shape& shape) {
  TW_CHECK_INTERNAL(shape.rank() == 4, "attention", "an operand of shape {} has no heads", shape);
  return {shape[0], shape[2], shape[1], shape[3]};
}

}  // namespace

HeadShapes head_shapes(AttentionLayout layout, const Shape& q, const Shape& k, const Shape& v) {
  if (layout == heads_first) return {q, k, v};
  return {swapped(q), swapped(k), swapped(v)};
}

HeadShapes head_shapes(const Shape& packed) {
  TW_CHECK_INTERNAL(packed.rank() == 5 && packed[2] == 3, "attention", "{} holds no q, k and v", packed);
  const Shape one{packed[0], packed[3], packed[1], packed[4]};
  return {one, one, one};
}

Shape output_shape(AttentionLayout layout, const HeadShapes& shapes) {
  const Shape o = shapes.q.with(3, shapes.v[3]);
  return layout == heads_first ? o : swapped(o);
}

bool heads_are_spread(AttentionLayout layout, const Shape& q, const Shape& v, DType dtype) {
  constexpr std::int64_t far = 2048;  // bytes
  if (layout == heads_first) return false;
  return (layout == packed ? 3 : 1) * q[1] * std::max(q[3], v[3]) * size_of(dtype) >= far;
}

cpu::AttentionStrides strides_of(AttentionLayout layout, const cpu::AttentionShape& s) {
  if (layout == heads_first) return cpu::heads_before_rows(s);
  const auto time_before_heads = [&](std::int64_t rows, std::int64_t size, std::int64_t parts) {
    const std::int64_t row = parts * s.heads * size;
    return cpu::HeadStrides{.batch = rows * row, .head = size, .row = row};
  };
  const std::int64_t parts = layout == packed ? 3 : 1;
  return {time_before_heads(s.queries, s.depth, parts), time_before_heads(s.keys, s.depth, parts),
          time_before_heads(s.keys, s.value_depth, parts), time_before_heads(s.queries, s.value_depth, 1)};
}

Ints head_axes(AttentionLayout layout, std::int64_t batch, std::int64_t heads) {
  if (layout == heads_first) return {batch, heads};
  return layout == time_first ? Ints{batch, mixed, heads} : Ints{batch, mixed, mixed, heads};
}

Tensors with_heads_first(AttentionLayout layout, const Tensors& operands) {
  if (layout == heads_first) return operands;
  Tensors list;
  if (layout == packed) {
    for (const Tensor& part : unstack(transpose(operands[0], {2, 0, 3, 1, 4}), 0)) list.push_back(part);
    return list;
  }
  for (const Tensor& operand : operands) list.push_back(transpose(operand, {0, 2, 1, 3}));
  return list;
}

Tensors as_laid_out(AttentionLayout layout, const Tensors& operands) {
  if (layout != packed) return with_heads_first(layout, operands);  // the same the other way
  return {transpose(stack({operands.begin(), operands.end()}, 0), {1, 3, 0, 2, 4})};
}

}  // namespace thalweg
