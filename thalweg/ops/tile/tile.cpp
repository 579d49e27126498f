#include "thalweg/ops/tile/tile.h"

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg {
namespace {

struct Tile {
  Ints multiples;
};
TW_FIELDS(Tile, multiples)

Specs infer(const Tile& op, Inputs in) {
  const Shape& shape = in[0].shape;
  TW_CHECK_USER(op.multiples.size() == shape.rank(), "tile", "give one multiple per axis",
                "expected {} multiples for {}, got {}", shape.rank(), shape, op.multiples);
  Ints sizes;
  for (int i = 0; i < shape.rank(); ++i) {
    TW_CHECK_USER(op.multiples[i] >= 0, "tile", "a multiple is 0 or more", "expected multiples of 0 or more, got {}",
                  op.multiples);
    sizes.push_back(Shape{shape[i], op.multiples[i]}.size());  // which refuses an overflow
  }
  return {Spec{in[0].dtype, Shape(sizes)}};
}

// Every axis is two loops: over the copies, which reads x again, and over x.
void run(const Tile& op, Arrays in, Arrays out) {
  const Shape& shape = in[0].shape();
  const Ints x = cpu::row_major_strides(shape), y = cpu::row_major_strides(out[0].shape());
  Ints from, to, sizes;
  for (int i = 0; i < shape.rank(); ++i) {
    sizes.push_back(op.multiples[i]), from.push_back(0), to.push_back(shape[i] * y[i]);
    sizes.push_back(shape[i]), from.push_back(x[i]), to.push_back(y[i]);
  }
  cpu::strided_copy(in[0].data, from, out[0].data, to, sizes, size_of(in[0].dtype()));
}

// The copies along one axis after the other are added.
Gradients gradient(const Tile& op, const Kept& kept, const Tensors& dy, Needs) {
  const Shape& shape = kept.input_spec(0).shape;
  Tensor dx = dy[0];
  std::int64_t before = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t copies = op.multiples[i],
                       after = shape.product(i, i + 1) * dy[0].shape().product(i + 1, shape.rank());
    if (copies != 1) dx = reduce_sum(reshape(dx, {before, copies, after}), {.axes = 1});
    before *= shape[i];
  }
  return {reshape(dx, shape)};
}

struct BroadcastTo {
  Shape shape;
};
TW_FIELDS(BroadcastTo, shape)

Specs infer(const BroadcastTo& op, Inputs in) {
  const Shape& x = in[0].shape;
  const int added = op.shape.rank() - x.rank();
  bool fits = added >= 0;
  for (int i = 0; fits && i < x.rank(); ++i) fits = x[i] == op.shape[added + i] || x[i] == 1;
  TW_CHECK_USER(fits, "broadcast_to",
                "sizes are matched from the last axis; a size of 1 is repeated, others must be equal",
                "expected a shape that {} repeats to, got {}", x, op.shape);
  return {Spec{in[0].dtype, op.shape}};
}

std::int64_t alias(const BroadcastTo& op, Inputs in) { return op.shape.size() == in[0].size() ? 0 : -1; }

void run(const BroadcastTo& op, Arrays in, Arrays out) {
  const Shape& x = in[0].shape();
  const Ints strides = cpu::row_major_strides(x);
  Ints from(op.shape.rank() - x.rank(), 0);
  for (int i = 0; i < x.rank(); ++i) from.push_back(x[i] == 1 ? 0 : strides[i]);
  cpu::strided_copy(in[0].data, from, out[0].data, cpu::row_major_strides(op.shape), op.shape, size_of(in[0].dtype()));
}

Gradients gradient(const BroadcastTo& op, const Kept& kept, const Tensors& dy, Needs) {
  const Shape& x = kept.input_spec(0).shape;
  const int added = op.shape.rank() - x.rank();
  Ints repeated;
  for (int i = 0; i < op.shape.rank(); ++i)
    if (i < added || x[i - added] != op.shape[i]) repeated.push_back(i);
  return {reshape(reduce_sum(dy[0], {.axes = repeated}), x)};
}

BatchStates batch_rule(const Tile& op, Inputs in, BatchStates& states, std::int64_t examples) {
  Ints repeated;
  for (int i = 0; i < in[0].rank(); ++i)
    if (op.multiples[i] != 1) repeated.push_back(i);
  return same_axes_rule(in, states, examples, repeated);
}

BatchStates batch_rule(const BroadcastTo& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return named_axes_rule(in, states, examples, {broadcast_names(in[0].shape, op.shape)}, {first_axes(op.shape.rank())});
}

BroadcastTo with_batch(const BroadcastTo& op, const BatchState& out, std::int64_t examples) {
  return {resized_batch(op.shape, out, examples)};
}

Tile lifted(const Tile& op, Inputs, std::int64_t) { return {with_front(1, op.multiples)}; }

}  // namespace

TW_DEFINE_OP(tile, Tile)
TW_DEFINE_OP(broadcast_to, BroadcastTo)

Tensor tile(const Tensor& x, const Ints& multiples) { return apply(tile_info(), Tile{multiples}, {x})[0]; }

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  return apply(broadcast_to_info(), BroadcastTo{shape}, {x})[0];
}

Tensor repeat(const Tensor& x, std::int64_t n, std::int64_t axis) {
  const int place = resolve_axis("repeat", axis, x.rank());
  TW_CHECK_USER(n >= 0, "repeat", "a number of repeats is 0 or more", "expected 0 or more repeats, got {}", n);
  const std::int64_t before = x.shape().product(0, place + 1), after = x.shape().product(place + 1, x.rank());
  const Tensor rows = broadcast_to(reshape(x, {before, 1, after}), {before, n, after});
  return reshape(rows, x.shape().with(place, x.shape()[place] * n));
}

}  // namespace thalweg
