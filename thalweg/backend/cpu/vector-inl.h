// The row language on Highway vectors. Included once per target.
#if defined(THALWEG_BACKEND_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_VECTOR_INL_H_
#undef THALWEG_BACKEND_CPU_VECTOR_INL_H_
#else
#define THALWEG_BACKEND_CPU_VECTOR_INL_H_
#endif

#include <cmath>
#include <type_traits>

#include "thalweg/backend/cpu/math-inl.h"
#include "thalweg/backend/cpu/rounding-inl.h"
#include "thalweg/backend/cpu/special.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
struct Mask {
  hn::Mask<D> m;

  friend HWY_INLINE Mask operator!(Mask x) { return {hn::Not(x.m)}; }
  friend HWY_INLINE Mask operator&(Mask x, Mask z) { return {hn::And(x.m, z.m)}; }
  friend HWY_INLINE Mask operator|(Mask x, Mask z) { return {hn::Or(x.m, z.m)}; }
};

template <class D>
struct Vector {
  using T = hn::TFromD<D>;
  hn::Vec<D> v;

  HWY_INLINE explicit Vector(hn::Vec<D> raw) : v(raw) {}
  HWY_INLINE Vector(double c) : v(hn::Set(D(), static_cast<T>(c))) {}  // a literal: one rounding to T
  HWY_INLINE Vector(int c) : v(hn::Set(D(), static_cast<T>(c))) {}

  friend HWY_INLINE Vector operator+(Vector x, Vector z) { return Vector(hn::Add(x.v, z.v)); }
  friend HWY_INLINE Vector operator-(Vector x, Vector z) { return Vector(hn::Sub(x.v, z.v)); }
  friend HWY_INLINE Vector operator*(Vector x, Vector z) { return Vector(hn::Mul(x.v, z.v)); }
  friend HWY_INLINE Vector operator/(Vector x, Vector z) { return Vector(hn::Div(x.v, z.v)); }
  friend HWY_INLINE Vector operator-(Vector x) { return Vector(hn::Neg(x.v)); }
  friend HWY_INLINE Mask<D> operator>(Vector x, Vector z) { return {hn::Gt(x.v, z.v)}; }
  friend HWY_INLINE Mask<D> operator<(Vector x, Vector z) { return {hn::Lt(x.v, z.v)}; }
  friend HWY_INLINE Mask<D> operator>=(Vector x, Vector z) { return {hn::Ge(x.v, z.v)}; }
  friend HWY_INLINE Mask<D> operator<=(Vector x, Vector z) { return {hn::Le(x.v, z.v)}; }
  friend HWY_INLINE Mask<D> operator==(Vector x, Vector z) { return {hn::Eq(x.v, z.v)}; }
  friend HWY_INLINE Vector where(Mask<D> c, Vector x, Vector z) { return Vector(hn::IfThenElse(c.m, x.v, z.v)); }
  friend HWY_INLINE Vector where(Vector c, Vector x, Vector z) {
    return Vector(hn::IfThenElse(hn::Eq(c.v, hn::Zero(D())), z.v, x.v));
  }
  friend HWY_INLINE Vector abs(Vector x) { return Vector(hn::Abs(x.v)); }
  friend HWY_INLINE Vector sqrt(Vector x) { return Vector(hn::Sqrt(x.v)); }

  // Rare functions, lane by lane in double.
  template <class F>
  static HWY_NOINLINE Vector by_lane(F f, Vector x, Vector z) {
    HWY_ALIGN T xs[hn::MaxLanes(D())], zs[hn::MaxLanes(D())];
    hn::Store(x.v, D(), xs);
    hn::Store(z.v, D(), zs);
    for (std::size_t i = 0; i < hn::Lanes(D()); ++i) xs[i] = static_cast<T>(f(xs[i], zs[i]));
    return Vector(hn::Load(D(), xs));
  }
  friend HWY_INLINE Vector digamma(Vector x) {
    return by_lane([](double p, double) { return special::digamma(p); }, x, x);
  }
  friend HWY_INLINE Vector polygamma(Vector x, Vector z) {
    return by_lane([](double p, double q) { return special::polygamma(p, q); }, x, z);
  }
  friend HWY_INLINE Vector floormod(Vector x, Vector z) {
    return by_lane([](double p, double q) { return special::floormod(p, q); }, x, z);
  }

#define TW_MATH1(name) \
  friend HWY_INLINE Vector name(Vector x) { return Vector(math::name(D(), x.v)); }
#define TW_MATH2(name) \
  friend HWY_INLINE Vector name(Vector x, Vector z) { return Vector(math::name(D(), x.v, z.v)); }
  // clang-format off
  TW_MATH1(floor) TW_MATH1(ceil) TW_MATH1(round) TW_MATH1(sign) TW_MATH1(round_to_bf16) TW_MATH1(round_to_f16)
  TW_MATH1(exp) TW_MATH1(expm1) TW_MATH1(log) TW_MATH1(log1p)
  TW_MATH1(sin) TW_MATH1(cos) TW_MATH1(tan) TW_MATH1(asin) TW_MATH1(acos) TW_MATH1(atan)
  TW_MATH1(sinh) TW_MATH1(cosh) TW_MATH1(tanh) TW_MATH1(asinh) TW_MATH1(acosh) TW_MATH1(atanh)
  TW_MATH1(erf) TW_MATH1(erfc) TW_MATH1(lgamma)
  TW_MATH2(max) TW_MATH2(min) TW_MATH2(pow) TW_MATH2(atan2)
  // clang-format on
#undef TW_MATH1
#undef TW_MATH2
};

}  // namespace thalweg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
