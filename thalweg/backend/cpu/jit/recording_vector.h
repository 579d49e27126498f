#pragma once

// What the row kernels use of Highway, on vectors that write down what is done with them. With HWY_NAMESPACE set to
// N_RECORDING the text of the kernels compiles against it.
#include <hwy/base.h>

#include <bit>
#include <cstddef>
#include <type_traits>

#include "thalweg/backend/cpu/jit/recording.h"

namespace hwy::N_RECORDING {

using thalweg::jit::Comparison;
using thalweg::jit::Op;
using thalweg::jit::recorder;
using thalweg::jit::Rounding;

template <class T>
struct Tag {
  using Type = T;
};
template <class D>
using TFromD = typename D::Type;
template <class T, class>
using Rebind = Tag<T>;
template <class D>
using RebindToUnsigned = Tag<MakeUnsigned<TFromD<D>>>;
template <class D>
using RebindToSigned = Tag<MakeSigned<TFromD<D>>>;
template <class D>
using Half = D;

template <class T>
struct Value {
  int id;
};
template <class D>
using Vec = Value<TFromD<D>>;
template <class T>
struct MaskValue {
  int id;
};
template <class D>
using Mask = MaskValue<TFromD<D>>;

template <class T>
int record_bits(T value) {
  return recorder->constant(std::bit_cast<MakeUnsigned<T>>(value));
}

inline int record_node(Op op, int a, int b = -1, int c = -1, std::uint8_t immediate = 0) {
  return recorder->add({.op = op, .immediate = immediate, .operands = {a, b, c}});
}

template <class D, class T>
Vec<D> Set(D, T value) {
  return {record_bits(static_cast<TFromD<D>>(value))};
}
template <class D>
Vec<D> Zero(D d) {
  return Set(d, TFromD<D>(0));
}
template <class D>
Vec<D> SignBit(D) {
  using Bits = MakeUnsigned<TFromD<D>>;
  return {record_bits(static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1)))};
}
template <class D, class T>
Vec<D> BitCast(D, Value<T> x) {
  return {x.id};
}

#define TW_RECORD_BINARY(name, op)            \
  template <class T>                          \
  Value<T> name(Value<T> x, Value<T> z) {     \
    return {record_node(Op::op, x.id, z.id)}; \
  }
#define TW_RECORD_TERNARY(name, op)                   \
  template <class T>                                  \
  Value<T> name(Value<T> x, Value<T> z, Value<T> a) { \
    return {record_node(Op::op, x.id, z.id, a.id)};   \
  }
#define TW_RECORD_COMPARISON(name, comparison)                                                            \
  template <class T>                                                                                      \
  MaskValue<T> name(Value<T> x, Value<T> z) {                                                             \
    return {record_node(Op::compare, x.id, z.id, -1, static_cast<std::uint8_t>(Comparison::comparison))}; \
  }
#define TW_RECORD_ROUNDING(name, rounding)                                                        \
  template <class T>                                                                              \
  Value<T> name(Value<T> x) {                                                                     \
    return {record_node(Op::round, x.id, -1, -1, static_cast<std::uint8_t>(Rounding::rounding))}; \
  }
TW_RECORD_BINARY(Mul, multiply)
TW_RECORD_BINARY(operator*, multiply)
TW_RECORD_BINARY(Div, divide)
TW_RECORD_BINARY(operator/, divide)
TW_RECORD_BINARY(Min, minimum)
TW_RECORD_BINARY(Max, maximum)
TW_RECORD_BINARY(And, bit_and)
TW_RECORD_BINARY(Or, bit_or)
TW_RECORD_BINARY(Xor, bit_xor)
TW_RECORD_TERNARY(MulAdd, multiply_add)
TW_RECORD_TERNARY(NegMulAdd, negative_multiply_add)
TW_RECORD_TERNARY(MulSub, multiply_subtract)
TW_RECORD_COMPARISON(Eq, equal)
TW_RECORD_COMPARISON(Lt, less)
TW_RECORD_COMPARISON(Le, less_equal)
TW_RECORD_COMPARISON(Gt, greater)
TW_RECORD_COMPARISON(Ge, greater_equal)
TW_RECORD_ROUNDING(Round, nearest)
TW_RECORD_ROUNDING(Floor, down)
TW_RECORD_ROUNDING(Ceil, up)
#undef TW_RECORD_BINARY
#undef TW_RECORD_TERNARY
#undef TW_RECORD_COMPARISON
#undef TW_RECORD_ROUNDING

template <class T>
Value<T> Add(Value<T> x, Value<T> z) {
  return {record_node(std::is_floating_point_v<T> ? Op::add : Op::integer_add, x.id, z.id)};
}
template <class T>
Value<T> Sub(Value<T> x, Value<T> z) {
  return {record_node(std::is_floating_point_v<T> ? Op::subtract : Op::integer_subtract, x.id, z.id)};
}
template <class T>
Value<T> operator+(Value<T> x, Value<T> z) {
  return Add(x, z);
}
template <class T>
Value<T> operator-(Value<T> x, Value<T> z) {
  return Sub(x, z);
}

template <class T>
Value<T> Sqrt(Value<T> x) {
  return {record_node(Op::square_root, x.id)};
}
template <class T>
Value<T> Neg(Value<T> x) {
  return Xor(x, SignBit(Tag<T>()));
}
template <class T>
Value<T> Abs(Value<T> x) {
  using Bits = MakeUnsigned<T>;
  return And(x, {record_bits(static_cast<Bits>(~Bits{0} >> 1))});
}
template <class T>
Value<T> CopySign(Value<T> magnitude, Value<T> sign) {
  return Or(Abs(magnitude), And(sign, SignBit(Tag<T>())));
}
template <int bits, class T>
Value<T> ShiftLeft(Value<T> x) {
  return {record_node(Op::shift_left, x.id, -1, -1, bits)};
}
template <int bits, class T>
Value<T> ShiftRight(Value<T> x) {
  return {record_node(Op::shift_right, x.id, -1, -1, bits)};
}

template <class T>
MaskValue<T> IsNaN(Value<T> x) {
  return {record_node(Op::compare, x.id, x.id, -1, static_cast<std::uint8_t>(Comparison::not_ordered))};
}
template <class T>
MaskValue<T> Not(MaskValue<T> x) {
  return {recorder->opposite(x.id)};
}
template <class T>
MaskValue<T> And(MaskValue<T> x, MaskValue<T> z) {
  return {record_node(Op::mask_and, x.id, z.id)};
}
template <class T>
MaskValue<T> Or(MaskValue<T> x, MaskValue<T> z) {
  return {record_node(Op::mask_or, x.id, z.id)};
}
template <class T>
MaskValue<T> AndNot(MaskValue<T> x, MaskValue<T> z) {
  return And(Not(x), z);
}
template <class T>
Value<T> IfThenElse(MaskValue<T> mask, Value<T> x, Value<T> z) {
  return {record_node(Op::select, mask.id, x.id, z.id)};
}
template <class T>
Value<T> IfThenElseZero(MaskValue<T> mask, Value<T> x) {
  return IfThenElse(mask, x, Zero(Tag<T>()));
}

// To halves and back is one operation; other widths are not recorded.
template <class D, class T>
Vec<D> DemoteTo(D, Value<T> x) {
  return {x.id};
}
template <class D, class T>
Vec<D> PromoteTo(D, Value<T> x) {
  if constexpr (std::is_same_v<T, float16_t>) return {record_node(Op::round_to_half, x.id)};
  recorder->fail();
  return {x.id};
}
template <class D, class T>
Mask<D> RebindMask(D, MaskValue<T> x) {
  return {x.id};
}

// What follows has no straight vector code here: the rows that come to it stay with their kernels.
template <class D>
constexpr std::size_t MaxLanes(D) {
  return 1;
}
template <class D>
constexpr std::size_t Lanes(D) {
  return 1;
}
template <class D>
void Store(Vec<D>, D, TFromD<D>* to) {
  recorder->fail();
  *to = 1;
}
template <class D>
Vec<D> Load(D d, const TFromD<D>*) {
  return Zero(d);
}
template <class D, class T>
void StoreU(Vec<D>, D, T*) {
  recorder->fail();
}
template <class D, class T>
Vec<D> LoadU(D, const T*) {
  recorder->fail();
  return {0};
}
template <class D, class T>
bool AllFalse(D, MaskValue<T>) {
  recorder->fail();
  return true;
}
template <class T>
MaskValue<T> TestBit(Value<T> x, Value<T>) {
  recorder->fail();
  return IsNaN(x);
}
template <class D, class T>
Value<T> LowerHalf(D, Value<T> x) {
  return x;
}
template <class D, class T>
Value<T> UpperHalf(D, Value<T> x) {
  return x;
}
template <class D, class T>
Value<T> Combine(D, Value<T> upper, Value<T>) {
  return upper;
}

}  // namespace hwy::N_RECORDING
