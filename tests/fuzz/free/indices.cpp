#include "tests/fuzz/free/machine.h"

namespace fuzz::free {
namespace {

using tw::Tensor;

Tensor from_table(Operands& o) {
  const Tensor ids = places(o, o.a, 1 + o.dice.below(12), table_rows);
  const tw::Variable& table = o.machine.variable(5);
  const Tensor shaped = o.dice.one_in(3) ? tw::reshape(ids, {-1, 1}) : ids;
  return o.dice.one_in(2) ? tw::gather(table, shaped) : tw::embedding_lookup(table, shaped);
}

Tensor gather(Operands& o) {
  const int axis = o.dice.one_in(2) ? 0 : o.dice.below(o.a.shape().rank());
  return tw::gather(o.a, places(o, o.b, 1 + o.dice.below(9), o.a.shape()[axis]), {.axis = axis});
}

Tensor gather_nd(Operands& o) {
  return tw::gather_nd(o.a, tw::expand_dims(places(o, o.b, 1 + o.dice.below(9), o.a.shape()[0]), 1));
}

// Rows of a changed; the new ones come from b, or are a's own.
Tensor scatter(Operands& o) {
  const auto n = o.a.shape()[0];
  const auto count = 1 + o.dice.below(n);
  tw::Ints begin(o.a.shape().rank(), 0), size(o.a.shape().rank(), -1);
  size[0] = count;
  const Tensor own = tw::slice(o.a, begin, size);
  const Tensor rows = o.dice.one_in(3) ? own : reshaped(o.b, own.shape(), own.dtype());
  const Tensor numbers = places(o, o.c, count, n), indices = tw::expand_dims(numbers, 1);
  switch (o.dice.below(5)) {
    case 0: return tw::scatter_nd(indices, rows, o.a.shape());
    case 1: return tw::tensor_scatter_nd_update(o.a, tw::expand_dims(tw::arange(count), 1), rows);
    case 2: return tw::unsorted_segment_sum(rows, numbers, n);
    case 3: return tw::unsorted_segment_max(rows, numbers, n);
    default: return tw::tensor_scatter_nd_add(o.a, indices, rows);
  }
}

Tensor one_hot(Operands& o) {
  const Tensor hot = tw::one_hot(places(o, o.a, 1 + o.dice.below(9), 6), 4 + o.dice.below(4));
  return tw::cast(hot, o.machine.program().dtype);
}

Tensor sorted(Operands& o) {
  switch (o.dice.below(4)) {
    case 0: return tw::sort(o.a, {.axis = o.dice.below(o.a.shape().rank()), .descending = o.dice.one_in(2)});
    case 1: return tw::cast(tw::argsort(o.a), tw::i64);
    case 2: return tw::top_k(o.a, 1 + o.dice.below(o.a.shape().last())).values;
    default: return tw::top_k(o.a, 1 + o.dice.below(o.a.shape().last())).indices;
  }
}

}  // namespace

Kinds index_kinds() {
  return {{"from_table", from_table, jumps, 8},
          {"gather", gather, jumps | axes, 8},
          {"gather_nd", gather_nd, jumps | axes, 3},
          {"scatter", scatter, jumps | axes | shape_kept, 8},
          {"one_hot", one_hot, jumps, 3},
          {"sorted", sorted, jumps | axes, 5}};
}

}  // namespace fuzz::free
