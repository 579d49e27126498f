#include "thalweg/ops/broadcast.h"

#include <algorithm>

#include "thalweg/core/check.h"

namespace thalweg {

Shape broadcast_shapes(const char* op, Inputs in) {
  const Shape* first = &in[0].shape;
  bool same = true;
  for (int i = 1; i < in.size(); ++i) same &= in[i].shape == *first;
  if (same) return *first;

  int rank = 0;
  for (int i = 0; i < in.size(); ++i) rank = std::max(rank, in[i].rank());
  Ints sizes(rank, 1);
  for (int i = 0; i < in.size(); ++i)
    for (int axis = 0; axis < in[i].rank(); ++axis) {
      auto& size = sizes[axis + rank - in[i].rank()];
      const auto own = in[i].shape[axis];
      if (size == 1) size = own;
      TW_CHECK_USER(own == size || own == 1, op,
                    "sizes must be equal or 1, counted from the last axis; use expand_dims or reshape",
                    "shapes do not broadcast: expected sizes equal or 1, got {} and {}", in[0].shape, in[i].shape);
    }
  return Shape(sizes);
}

BroadcastWalk broadcast_walk(const Shape& operand, const Shape& result) {
  BroadcastWalk walk;
  walk.whole = operand.size() == result.size();
  walk.scalar = operand.size() == 1 && !walk.whole;
  if (walk.whole || walk.scalar) return walk;
  const int missing = result.rank() - operand.rank();
  std::int64_t stride = 1;
  for (int axis = result.rank() - 1; axis >= 0; --axis) {  // innermost first
    const std::int64_t size = result[axis];
    if (size == 1) continue;
    const bool repeats = axis < missing || operand[axis - missing] == 1;
    const std::int64_t own = repeats ? 0 : stride;
    const int last = walk.rank - 1;
    const bool merges = walk.rank > 0 && own == (walk.strides[last] == 0 ? 0 : walk.strides[last] * walk.sizes[last]) &&
                        (own == 0) == (walk.strides[last] == 0);
    if (merges)
      walk.sizes[last] *= size;
    else
      walk.sizes[walk.rank] = size, walk.strides[walk.rank++] = own;
    if (!repeats) stride *= size;
  }
  return walk;
}

}  // namespace thalweg
