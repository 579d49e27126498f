#include "tests/fuzz/free/machine.h"

namespace fuzz::free {
namespace {

using tw::Tensor;

tw::Reduce some_axes(const Operands& o, const Tensor& x) {
  const bool keep = o.dice.one_in(2);
  const int rank = x.shape().rank();
  if (rank == 0 || o.dice.one_in(4)) return {.keepdims = keep};
  if (rank > 1 && o.dice.one_in(4)) return {.axes = {0, rank - 1}, .keepdims = keep};
  return {.axes = {o.dice.below(rank)}, .keepdims = keep};
}

Tensor reduced(const Operands& o, const Tensor& x, const tw::Reduce& options) {
  switch (o.dice.below(8)) {
    case 0:
    case 1: return tw::reduce_sum(x, options);
    case 2:
    case 3: return tw::reduce_mean(x, options);
    case 4: return tw::reduce_max(x, options);
    case 5: return tw::reduce_min(x, options);
    case 6: return is_float(x) ? tw::reduce_variance(x, options) : tw::reduce_prod(x, options);
    default: return is_float(x) ? tw::logsumexp(x, options) : tw::reduce_sum(x, options);
  }
}

Tensor reduce(Operands& o) {
  if (o.a.dtype() == tw::boolean) {
    const auto options = some_axes(o, o.a);
    return o.dice.one_in(2) ? tw::reduce_any(o.a, options) : tw::reduce_all(o.a, options);
  }
  return reduced(o, o.a, some_axes(o, o.a));
}

// Where all elements are alike it is the root of nothing but rounding.
Tensor deviation(Operands& o) {
  const Tensor x = real(o, o.a);
  return tw::reduce_std(x, some_axes(o, x));
}

// As norms and centring do: a reduction that meets its operand again.
Tensor against_own(Operands& o) {
  const Tensor x = real(o, o.a);
  auto options = some_axes(o, x);
  options.keepdims = true;
  const Tensor y = reduced(o, x, options);
  switch (o.dice.below(3)) {
    case 0: return x - y;
    case 1: return x * tw::tanh(y);
    default: return tw::square(x - y) / (tw::abs(y) + 1);
  }
}

Tensor cumulative(Operands& o) {
  const tw::Cumulative options{
      .axis = o.dice.below(o.a.shape().rank()), .exclusive = o.dice.one_in(2), .reverse = o.dice.one_in(2)};
  return o.dice.one_in(2) ? tw::cumsum(o.a, options) : tw::cumprod(is_float(o.a) ? tw::tanh(o.a) : o.a, options);
}

Tensor products_of_elements(Operands& o) { return tw::reduce_prod(tw::tanh(real(o, o.a)), some_axes(o, o.a)); }

Tensor norm(Operands& o) {
  const Tensor x = real(o, o.a);
  switch (o.dice.below(4)) {
    case 0: return tw::norm(x);
    case 1: return tw::clip_by_norm(x, 0.7);
    case 2: return tw::l2_normalize(x, {.axes = {-1}});
    default: return tw::norm(x, {.axes = {-1}, .keepdims = true, .order = o.dice.one_in(2) ? 1.0 : 2.0});
  }
}

Tensor largest_place(Operands& o) {
  const int axis = o.dice.below(o.a.shape().rank());
  return o.dice.one_in(2) ? tw::argmax(o.a, axis) : tw::argmin(o.a, axis);
}

}  // namespace

Kinds reduction_kinds() {
  return {{"reduce", reduce, 0, 25},
          {"against_own", against_own, shape_kept, 15},
          {"deviation", deviation, jumps, 3},
          {"cumulative", cumulative, axes | shape_kept, 8},
          {"products_of_elements", products_of_elements, 0, 2},
          {"norm", norm, 0, 5},
          {"largest_place", largest_place, jumps | axes, 4}};
}

}  // namespace fuzz::free
