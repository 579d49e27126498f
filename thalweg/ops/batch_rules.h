#pragma once

// Batch rules by names of axes. Axes of one name are walked together: entry k of an output reads only entries k of the
// inputs that have the name, whatever it reads of the others; an output without the name is the sum over its entries.
// An axis without a name (-1, or beyond the end of its list) is mixed: nothing can be cut along it.
#include "thalweg/core/op.h"

namespace thalweg {

inline constexpr std::int64_t mixed = -1;

using AxisNames = SmallVector<Ints, 4>;  // a list for each tensor, a name (0 or more) for each of its axes

BatchStates named_axes_rule(Inputs in, BatchStates& states, std::int64_t examples, const AxisNames& inputs,
                            const AxisNames& outputs);

// The first `count` axes are named, by their places, in all inputs and outputs.
BatchStates leading_axes_rule(Inputs in, BatchStates& states, std::int64_t examples, int count, int outputs = 1);

// All axes are named, by their places, in all inputs and outputs, but for these.
BatchStates same_axes_rule(Inputs in, BatchStates& states, std::int64_t examples, const Ints& mixed_axes,
                           int outputs = 1);

// The inputs broadcast to one shape, that of all outputs.
BatchStates broadcast_rule(Inputs in, BatchStates& states, std::int64_t examples, int outputs = 1);

// 0, 1, … count - 1.
Ints first_axes(int count);

// The names of an operand of this shape that broadcasts to `result`, whose axes are named by their places.
Ints broadcast_names(const Shape& shape, const Shape& result);

// The names of what a reduction of `rank` axes leaves.
Ints reduced_names(int rank, const Ints& reduced, bool keepdims);

// For lifted: what is listed by axis with the entry of a new leading one, and axes when there is one more before them.
Ints with_front(std::int64_t entry, const Ints& entries);
Ints shifted_axes(const Ints& axes);

// For with_batch: the shape with as many entries along the batch axis as this many examples have.
Shape resized_batch(const Shape& shape, const BatchState& out, std::int64_t examples);

}  // namespace thalweg
