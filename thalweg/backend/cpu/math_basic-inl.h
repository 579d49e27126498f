// What the other math files are built from (constants, polynomials, widening, calls per lane), and the functions that
// need no approximation: maximum, minimum, sign, floor, ceil, round.
#if defined(THALWEG_BACKEND_CPU_MATH_BASIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_MATH_BASIC_INL_H_
#undef THALWEG_BACKEND_CPU_MATH_BASIC_INL_H_
#else
#define THALWEG_BACKEND_CPU_MATH_BASIC_INL_H_
#endif

#include "thalweg/backend/cpu/targets.h"

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE::math {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
inline constexpr bool kIsFloat = std::is_same_v<hn::TFromD<D>, float>;

// Highway's emulated targets differ from the others: Min and Max drop a NaN on either side, DemoteTo clamps to the
// largest float instead of infinity, Ceil(0) is -0, Floor(-0) is 0 and Round(0.49999997f) is 1.
inline constexpr bool kEmulated = HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128;

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

template <class D>
HWY_INLINE hn::Vec<D> infinity(D d) {
  return hn::Set(d, std::numeric_limits<hn::TFromD<D>>::infinity());
}

template <class D>
HWY_INLINE hn::Vec<D> not_a_number(D d) {
  return hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
}

// Adding and subtracting 1.5 * 2^mantissa_bits rounds to an integer; the sum holds that integer in its low bits.
template <class D>
HWY_INLINE hn::Vec<D> rounder(D d) {
  return constant(d, kIsFloat<D> ? 0x1.8p23 : 0x1.8p52);
}

// c0 + c1 x + c2 x^2 + ...
template <class D, class... Rest>
HWY_INLINE hn::Vec<D> polynomial(D d, hn::Vec<D> x, double c0, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return constant(d, c0);
  } else {
    return hn::MulAdd(polynomial(d, x, rest...), x, constant(d, c0));
  }
}

// Calls f on each lane: for what is too rare to deserve vector code.
template <class D, class F, class... V>
HWY_NOINLINE hn::Vec<D> per_lane(D d, F f, V... x) {
  constexpr size_t kLanes = hn::MaxLanes(D());
  HWY_ALIGN hn::TFromD<D> in[sizeof...(x)][kLanes];
  HWY_ALIGN hn::TFromD<D> out[kLanes];
  size_t row = 0;
  (hn::Store(x, d, in[row++]), ...);
  for (size_t i = 0; i < kLanes; ++i) {
    if constexpr (sizeof...(x) == 1) {
      out[i] = f(in[0][i]);
    } else {
      out[i] = f(in[0][i], in[1][i]);
    }
  }
  return hn::Load(d, out);
}

template <class D, class V>
HWY_INLINE hn::Vec<D> narrow(D d, V wide) {
  if constexpr (kEmulated) {
    constexpr size_t kLanes = hn::MaxLanes(D());
    HWY_ALIGN double in[kLanes];
    HWY_ALIGN float out[kLanes];
    hn::Store(wide, hn::Rebind<double, D>(), in);
    for (size_t i = 0; i < kLanes; ++i) out[i] = static_cast<float>(in[i]);
    return hn::Load(d, out);
  } else {
    return hn::DemoteTo(d, wide);
  }
}

// f of float vectors, computed in double: f(wide_tag, wide_x...), rounded once.
template <class D, class F, class... V>
HWY_INLINE hn::Vec<D> in_double(D d, F f, V... x) {
#if HWY_TARGET == HWY_SCALAR  // one lane has no halves
  const hn::Rebind<double, D> wide;
  return narrow(d, f(wide, hn::PromoteTo(wide, x)...));
#else
  const hn::Half<D> half;
  const hn::Rebind<double, hn::Half<D>> wide;
  const auto lower = narrow(half, f(wide, hn::PromoteTo(wide, hn::LowerHalf(half, x))...));
  const auto upper = narrow(half, f(wide, hn::PromoteTo(wide, hn::UpperHalf(half, x))...));
  return hn::Combine(d, upper, lower);
#endif
}

// x within [low, high], NaN stays. On x86 Min and Max return their second operand when either is NaN, on Arm the NaN.
template <class D>
HWY_INLINE hn::Vec<D> clamp(D d, hn::Vec<D> x, double low, double high) {
  const auto lowest = constant(d, low), highest = constant(d, high);
  if constexpr (kEmulated) {
    return hn::IfThenElse(hn::Lt(x, lowest), lowest, hn::IfThenElse(hn::Gt(x, highest), highest, x));
  } else {
    return hn::Min(highest, hn::Max(lowest, x));
  }
}

// |x|, at most high; NaN stays.
template <class D>
HWY_INLINE hn::Vec<D> abs_at_most(D d, hn::Vec<D> x, double high) {
  return clamp(d, hn::Abs(x), 0.0, high);
}

// The larger of a and b; NaN if either is.
template <class D>
HWY_INLINE hn::Vec<D> max(D, hn::Vec<D> a, hn::Vec<D> b) {
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}

// The smaller of a and b; NaN if either is.
template <class D>
HWY_INLINE hn::Vec<D> min(D, hn::Vec<D> a, hn::Vec<D> b) {
  return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
}

// -1, 0 or 1; zeros keep their sign and NaN stays. Ops take numbers below a normal one for 0: x + x is, where x is not.
template <class D>
HWY_INLINE hn::Vec<D> sign(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::Gt(hn::Abs(x), hn::Zero(d)), hn::CopySign(constant(d, 1.0), x), x + x);
}

template <class D>
HWY_INLINE hn::Vec<D> floor(D d, hn::Vec<D> x) {
  if constexpr (kEmulated) {
    return per_lane(
        d, [](auto lane) HWY_ATTR { return std::floor(lane); }, x);
  } else {
    return hn::Floor(x);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> ceil(D d, hn::Vec<D> x) {
  if constexpr (kEmulated) {
    return per_lane(
        d, [](auto lane) HWY_ATTR { return std::ceil(lane); }, x);
  } else {
    return hn::Ceil(x);
  }
}

// To the nearest integer, halves to even.
template <class D>
HWY_INLINE hn::Vec<D> round(D d, hn::Vec<D> x) {
  if constexpr (kEmulated) {
    return per_lane(
        d, [](auto lane) HWY_ATTR { return std::nearbyint(lane); }, x);
  } else {
    return hn::Round(x);
  }
}

}  // namespace thalweg::HWY_NAMESPACE::math
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
