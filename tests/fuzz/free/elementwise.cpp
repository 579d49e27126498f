#include "tests/fuzz/free/machine.h"

namespace fuzz::free {
namespace {

using tw::Tensor;

Tensor unary(Operands& o) {
  const Tensor x = real(o, o.a);
  switch (o.dice.below(16)) {
    case 0: return tw::relu(x);
    case 1: return tw::gelu(x, {.approximate = o.dice.one_in(2)});
    case 2: return tw::sin(tw::tanh(x) * 3);  // of thousands it would be nothing but their rounding
    case 3: return tw::exp(-(x * x));
    case 4: return tw::sqrt(x * x + 1);
    case 5: return tw::sigmoid(x) * x;
    case 6: return tw::softplus(x);
    case 7: return tw::tanh(x) * 1 + 0;
    case 8: return tw::exp(tw::minimum(x, 2));
    case 9: return -x;
    case 10: return tw::abs(x);
    case 11: return tw::log(tw::abs(x) + 0.5);
    case 12: return tw::rsqrt(tw::square(x) + 0.1);
    case 13: return tw::erf(x);
    case 14: return tw::clip_by_value(x, -0.5, 1);
    default: return tw::leaky_relu(x, 0.1);
  }
}

Tensor binary(Operands& o) {
  const Tensor x = o.a.dtype() == tw::boolean ? real(o, o.a) : o.a;
  const Tensor y = fitted(o, o.b, x);
  switch (o.dice.below(10)) {
    case 0:
    case 1: return x + y;
    case 2:
    case 3: return x - y;
    case 4: return y - x;
    case 5: return tw::maximum(x, y);
    case 6: return tw::minimum(x, y);
    case 7: return is_float(x) ? tw::tanh(x) * y : x * y;
    case 8: return is_float(x) ? x / (y * y + 1) : tw::floordiv(x, tw::maximum(y, 1));
    default: return tw::squared_difference(x, y);
  }
}

// Numbers, and the same tensor several times.
Tensor with_numbers(Operands& o) {
  const Tensor x = o.a.dtype() == tw::boolean ? real(o, o.a) : o.a;
  switch (o.dice.below(8)) {
    case 0: return x * 2;
    case 1: return x + 1;
    case 2: return 1 - x;
    case 3: return x - x;
    case 4: return x * x;
    case 5: return x * 0;
    case 6: return x + x;
    default: return tw::maximum(x, 0);
  }
}

Tensor choose(Operands& o) {
  const Tensor y = fitted(o, o.b, o.a);
  const Tensor condition = o.c.dtype() == tw::boolean ? fitted(o, o.c, o.a > 0) : o.a > y;
  if (o.dice.one_in(4)) return tw::where(condition, o.a, tw::zeros_like(o.a));
  return o.dice.one_in(2) ? tw::where(condition, o.a, y) : tw::where(condition, y, o.a);
}

Tensor compared(Operands& o) {
  const Tensor y = fitted(o, o.b, o.a);
  switch (o.dice.below(6)) {
    case 0: return o.a > y;
    case 1: return o.a <= y;
    case 2: return tw::equal(o.a, y);
    case 3: return tw::not_equal(o.a, y);
    case 4: return (o.a > y) & (o.a < 1);
    default: return (!(o.a >= y)) | (y > 0);
  }
}

// Infinities and NaN, at some places.
Tensor not_finite(Operands& o) {
  const Tensor x = real(o, o.a);
  switch (o.dice.below(5)) {
    case 0: return tw::log(x);
    case 1: return x / fitted(o, tw::relu(real(o, o.b)), x);
    case 2: return tw::where(x > 0.5, x, -std::numeric_limits<double>::infinity());
    case 3: return tw::sqrt(x);
    default: return tw::where(tw::isfinite(x), x, fitted(o, o.b, x));
  }
}

Tensor stepped(Operands& o) {
  const Tensor x = real(o, o.a);
  switch (o.dice.below(4)) {
    case 0: return tw::floor(x);
    case 1: return tw::round(x * 2);
    case 2: return tw::sign(x);
    default: return tw::floormod(x, 0.75);
  }
}

Tensor other_dtype(Operands& o) {
  static const tw::DType list[] = {tw::f32, tw::f64, tw::bf16, tw::f16, tw::i64, tw::i32, tw::u8, tw::boolean};
  return tw::cast(o.a, list[o.dice.below(8)]);
}

// Mixed dtypes, as ops promote them.
Tensor promoted(Operands& o) { return broadcasts(o.b.shape(), o.a.shape()) ? o.a * 0.5 + o.b : o.a + o.b; }

Tensor chosen_dtype(Operands& o) { return real(o, tw::cast(o.a, o.machine.program().dtype)) * 0.5; }

}  // namespace

Kinds elementwise_kinds() {
  return {{"unary", unary, shape_kept | mesh, 30},
          {"binary", binary, shape_kept | mesh, 40},
          {"with_numbers", with_numbers, shape_kept | mesh, 15},
          {"choose", choose, jumps | shape_kept, 10},
          {"compared", compared, jumps, 5},
          {"not_finite", not_finite, jumps | shape_kept, 2},
          {"stepped", stepped, jumps | shape_kept, 3},
          {"other_dtype", other_dtype, jumps, 8},
          {"promoted", promoted, jumps, 4},
          {"chosen_dtype", chosen_dtype, 0, 8}};
}

}  // namespace fuzz::free
