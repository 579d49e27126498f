#include "tests/fuzz/free/machine.h"

namespace fuzz::free {
namespace {

using tw::Tensor;

int any_axis(const Operands& o, const Tensor& x) { return o.dice.below(std::max(1, x.shape().rank())); }

Tensor reshape(Operands& o) {
  const tw::Shape& shape = o.a.shape();
  switch (o.dice.below(6)) {
    case 0: return tw::reshape(o.a, {shape.size()});
    case 1: return tw::expand_dims(o.a, o.dice.below(shape.rank() + 1));
    case 2: return tw::squeeze(o.a);
    case 3: return matrix(o.a);
    case 4: return tw::reshape(o.a, o.b.shape());
    default: {
      const int axis = any_axis(o, o.a);
      if (shape.rank() == 0) return o.a;
      for (std::int64_t part : {2, 3, 5})
        if (shape[axis] % part == 0) return tw::reshape(o.a, shape.with(axis, part).inserted(axis, shape[axis] / part));
      return o.a;
    }
  }
}

Tensor slice(Operands& o) {
  const int rank = o.a.shape().rank(), axis = o.dice.one_in(2) ? 0 : any_axis(o, o.a);
  const auto n = o.a.shape()[axis];
  tw::Ints begin(rank, 0), size(rank, -1);
  begin[axis] = o.dice.below(n + 1), size[axis] = o.dice.below(n - begin[axis] + 1);
  if (o.dice.one_in(3)) begin[axis] = o.dice.below(n), size[axis] = 1;
  return tw::slice(o.a, begin, size);
}

Tensor strided(Operands& o) {
  const auto n = o.a.shape()[0];
  switch (o.dice.below(4)) {
    case 0: return tw::strided_slice(o.a, {.begin = {0}, .end = {n}, .strides = {2}});
    case 1: return tw::strided_slice(o.a, {.begin = {-1}, .end = {0}, .strides = {-1}, .end_mask = 1});
    case 2: return tw::strided_slice(o.a, {.begin = {o.dice.below(n)}, .end = {n}, .shrink_axis_mask = 1});
    default:
      return tw::strided_slice(
          o.a, {.begin = {0, 0}, .end = {0, o.a.shape().last()}, .strides = {1, 3}, .ellipsis_mask = 1});
  }
}

Tensor reverse(Operands& o) { return tw::reverse(o.a, {any_axis(o, o.a)}); }

// The same elements, or sums of them, in other places: what no elementwise op joins.
Tensor moved(Operands& o) {
  const int axis = any_axis(o, o.a);
  switch (o.dice.below(6)) {
    case 0:
    case 1: return tw::reverse(o.a, {axis});
    case 2: return tw::roll(o.a, 1, axis);
    case 3: return tw::cumsum(o.a, {.axis = axis});
    case 4: return tw::sort(o.a, {.axis = axis});
    default: return tw::gather(o.a, tw::arange(o.a.shape()[0] - 1, -1, -1));
  }
}

Tensor transpose(Operands& o) {
  const int rank = o.a.shape().rank();
  if (rank < 2) return o.a;
  tw::Ints order(rank, 0);
  for (int i = 0; i < rank; ++i) order[i] = i;
  if (o.dice.one_in(2)) {
    std::swap(order[rank - 1], order[rank - 2]);
  } else {
    for (int i = rank; i-- > 1;) std::swap(order[i], order[o.dice.below(i + 1)]);
  }
  return tw::transpose(o.a, order);
}

Tensor concat(Operands& o) {
  const int axis = any_axis(o, o.a);
  const Tensor b = reshaped(o.b, o.a.shape(), o.a.dtype());
  switch (o.dice.below(5)) {
    case 0: return tw::concat({o.a, b}, axis);
    case 1: return tw::concat({b, o.a, b}, axis);
    case 2: return tw::stack({o.a, b}, axis);
    case 3: return tw::stack({o.a, o.a}, o.a.shape().rank());
    default: return tw::concat({o.a, tw::cast(o.b, o.a.dtype())}, axis);
  }
}

Tensor part(Operands& o) {
  const int axis = any_axis(o, o.a);
  const auto n = o.a.shape()[axis];
  if (n > 0 && o.dice.one_in(3)) return tw::unstack(o.a, axis)[static_cast<std::size_t>(o.dice.below(n))];
  for (int parts : {2, 3})
    if (n % parts == 0) {
      const auto list = tw::split(o.a, parts, axis);
      const auto at = [&](int i) { return list[static_cast<std::size_t>(i)]; };
      return o.dice.one_in(2) ? at(o.dice.below(parts)) : tw::concat({at(1), at(0)}, axis);
    }
  return o.a;
}

Tensor larger(Operands& o) {
  const int rank = o.a.shape().rank(), axis = any_axis(o, o.a);
  switch (o.dice.below(5)) {
    case 0: {
      tw::Ints multiples(rank, 1);
      multiples[axis] = 2;
      return tw::tile(o.a, multiples);
    }
    case 1: return tw::repeat(o.a, 2, axis);
    case 2: return tw::roll(o.a, 1 + o.dice.below(3), axis);
    case 3: return tw::broadcast_to(o.a, o.a.shape().inserted(0, 3));
    default: {
      tw::Paddings paddings(static_cast<std::size_t>(rank), {0, 0});
      paddings[static_cast<std::size_t>(axis)] = {o.dice.below(2), o.dice.below(2)};
      return tw::pad(o.a, paddings, {.mode = o.dice.one_in(2) ? tw::PadMode::constant : tw::PadMode::symmetric});
    }
  }
}

Tensor filled(Operands& o) {
  switch (o.dice.below(4)) {
    case 0: return tw::zeros_like(o.a);
    case 1: return tw::full(o.a.shape(), 0.5, o.a.dtype());
    case 2: return tw::cast(tw::arange(o.a.shape().rank() == 0 ? 3 : o.a.shape()[0]), tw::f32);
    default: return tw::eye(o.machine.program().features);
  }
}

Tensor band(Operands& o) {
  return o.dice.one_in(2) ? tw::band_part(o.a, o.dice.below(3) - 1, o.dice.below(3) - 1) : tw::diag_part(o.a);
}

}  // namespace

Kinds shape_kinds() {
  return {{"reshape", reshape, 0, 16},
          {"slice", slice, axes, 16},
          {"strided", strided, axes, 6},
          {"moved", moved, axes | shape_kept | mesh, 90},
          {"reverse", reverse, axes | shape_kept, 10},
          {"transpose", transpose, transposes | axes, 12},
          {"concat", concat, axes, 10},
          {"part", part, axes, 8},
          {"larger", larger, axes, 8},
          {"filled", filled, 0, 3},
          {"band", band, axes, 3}};
}

}  // namespace fuzz::free
