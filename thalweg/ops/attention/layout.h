#pragma once

// How the operands of attention lie. Users see the first layout; a pass over graphs takes the others where nothing has
// to be transposed then.
#include "thalweg/backend/cpu/kernels/attention.h"
#include "thalweg/core/op.h"

namespace thalweg {

enum class AttentionLayout : std::int64_t {
  heads_first,  // q, k, v, o [batch, heads, time, size]
  time_first,   // q, k, v, o [batch, time, heads, size]
  packed,       // qkv [batch, time, 3, heads, size]; o [batch, time, heads, size]
};

// How many tensors hold q, k and v.
constexpr int attention_operands(AttentionLayout layout) { return layout == AttentionLayout::packed ? 1 : 3; }

// Each [batch, heads, time, size], however the operand lies.
struct HeadShapes {
  Shape q, k, v;
};
HeadShapes head_shapes(AttentionLayout layout, const Shape& q, const Shape& k, const Shape& v);
HeadShapes head_shapes(const Shape& packed);

Shape output_shape(AttentionLayout layout, const HeadShapes& shapes);  // of o
// Whether rows are so far apart that they share few sets of the first-level cache. q, v: as in HeadShapes.
bool heads_are_spread(AttentionLayout layout, const Shape& q, const Shape& v, DType dtype);
cpu::AttentionStrides strides_of(AttentionLayout layout, const cpu::AttentionShape& shape);

// Which of the axes [batch, heads] each axis of an operand is, for named_axes_rule; o lies as other operands that are
// not packed.
Ints head_axes(AttentionLayout layout, std::int64_t batch, std::int64_t heads);

// The operands as heads_first, by transposing them, and results back.
Tensors with_heads_first(AttentionLayout layout, const Tensors& operands);
Tensors as_laid_out(AttentionLayout layout, const Tensors& operands);

}  // namespace thalweg
