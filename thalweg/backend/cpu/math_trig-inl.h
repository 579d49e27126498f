// Trigonometric functions and their inverses.
#if defined(THALWEG_BACKEND_CPU_MATH_TRIG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_MATH_TRIG_INL_H_
#undef THALWEG_BACKEND_CPU_MATH_TRIG_INL_H_
#else
#define THALWEG_BACKEND_CPU_MATH_TRIG_INL_H_
#endif

#include "thalweg/backend/cpu/math_basic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE::math {

// Up to here n pi / 2 is subtracted exactly enough; beyond, libm is called lane by lane.
template <class D>
inline constexpr double kAngleLimit = kIsFloat<D> ? 1e5 : 1e6;

template <class D>
struct Angle {
  hn::Vec<D> n;  // integer
  hn::Vec<D> r;  // |r| <= pi / 4
};

// x = n pi / 2 + r in double. The first three parts of pi / 2 have 33 bits: their products with n are exact.
template <class D>
HWY_INLINE Angle<D> split_angle_double(D d, hn::Vec<D> x) {
  const auto n = hn::MulAdd(x, constant(d, 0.63661977236758134), rounder(d)) - rounder(d);
  auto r = hn::NegMulAdd(n, constant(d, 1.57079632673412561417e+00), x);
  r = hn::NegMulAdd(n, constant(d, 6.07710050630396597660e-11), r);
  r = hn::NegMulAdd(n, constant(d, 2.02226624871116645580e-21), r);
  return {n, hn::NegMulAdd(n, constant(d, 8.47842766036889956997e-32), r)};
}

template <class D>
HWY_INLINE Angle<D> split_angle(D d, hn::Vec<D> x) {
  if constexpr (!kIsFloat<D>) {
    return split_angle_double(d, x);
  } else {
#if HWY_NATIVE_FMA  // each step is exact or rounded once
    const auto n = hn::MulAdd(x, constant(d, 0.63661977236758134), rounder(d)) - rounder(d);
    auto r = hn::NegMulAdd(n, constant(d, 1.57079637050628662e+00), x);
    r = hn::NegMulAdd(n, constant(d, -4.37113882867379290e-08), r);
    return {n, hn::NegMulAdd(n, constant(d, -1.71512451e-15), r)};
#else  // the products would round
    const auto n = in_double(
        d, [](auto wide, auto w) HWY_ATTR { return split_angle_double(wide, w).n; }, x);
    return {n, in_double(
                   d, [](auto wide, auto w) HWY_ATTR { return split_angle_double(wide, w).r; }, x)};
#endif
  }
}

template <class D>
HWY_INLINE hn::Vec<D> sin_reduced(D d, hn::Vec<D> r, hn::Vec<D> z) {
  hn::Vec<D> p;
  if constexpr (kIsFloat<D>) {
    p = polynomial(d, z, -0.166666672, 0.00833333191, -0.000198400856, 2.7249846e-06);
  } else {
    p = polynomial(d, z, -0.16666666666666666, 0.008333333333333331, -0.0001984126984126506, 2.755731921933435e-06,
                   -2.5052106230775234e-08, 1.6058531353948204e-10, -7.586681496252475e-13);
  }
  return hn::MulAdd(r * z, p, r);
}

template <class D>
HWY_INLINE hn::Vec<D> cos_reduced(D d, hn::Vec<D> z) {
  hn::Vec<D> p;
  if constexpr (kIsFloat<D>) {
    p = polynomial(d, z, 0.0416666679, -0.00138888881, 2.48005999e-05, -2.73008936e-07);
  } else {
    p = polynomial(d, z, 0.041666666666666664, -0.0013888888888888887, 2.4801587301584642e-05, -2.7557319221400146e-07,
                   2.087675579015064e-09, -1.147046074025427e-11, 4.745863216797695e-14);
  }
  // 1 - z / 2 rounds; what it loses is given back to the small terms
  const auto one = constant(d, 1.0), half_z = constant(d, 0.5) * z, leading = one - half_z;
  return leading + hn::MulAdd(z * z, p, (one - leading) - half_z);
}

// Lanes whose n is odd: sine and cosine change places there.
template <class D>
HWY_INLINE hn::Mask<D> is_odd(D d, hn::Vec<D> n) {
  const hn::RebindToUnsigned<D> du;
  return hn::RebindMask(d, hn::TestBit(hn::BitCast(du, n + rounder(d)), hn::Set(du, 1)));
}

// sin(n pi / 2 + r)
template <class D>
HWY_INLINE hn::Vec<D> sin_of_angle(D d, hn::Vec<D> n, hn::Vec<D> r) {
  const hn::RebindToUnsigned<D> du;
  constexpr int kSignBit = 8 * sizeof(hn::TFromD<D>) - 1;
  const auto z = r * r;
  const auto y = hn::IfThenElse(is_odd(d, n), cos_reduced(d, z), sin_reduced(d, r, z));
  const auto bit_1_as_sign = hn::ShiftLeft<kSignBit - 1>(hn::BitCast(du, n + rounder(d)));
  return hn::Xor(y, hn::And(hn::BitCast(d, bit_1_as_sign), hn::SignBit(d)));
}

// y, or f lane by lane where |x| is too big to reduce here (infinity included). f is called in the next wider type:
// glibc's sin, cos and tan of a double are up to 14 units off for huge arguments next to a multiple of pi / 2.
template <class D, class F>
HWY_INLINE hn::Vec<D> replace_huge(D d, hn::Vec<D> x, hn::Vec<D> y, F f) {
  const auto huge = hn::Gt(hn::Abs(x), constant(d, kAngleLimit<D>));
  if (HWY_LIKELY(hn::AllFalse(d, huge))) return y;
  using T = hn::TFromD<D>;
  using Wider = std::conditional_t<kIsFloat<D>, double, long double>;
  return hn::IfThenElse(huge,
                        per_lane(
                            d, [f](T lane) HWY_ATTR { return static_cast<T>(f(Wider(lane))); }, x),
                        y);
}

template <class D>
HWY_INLINE hn::Vec<D> sin(D d, hn::Vec<D> x) {
  const auto [n, r] = split_angle(d, x);
  const auto y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, sin_of_angle(d, n, r));
  return replace_huge(d, x, y, [](auto lane) HWY_ATTR { return std::sin(lane); });
}

template <class D>
HWY_INLINE hn::Vec<D> cos(D d, hn::Vec<D> x) {
  const auto [n, r] = split_angle(d, x);
  const auto y = sin_of_angle(d, n + constant(d, 1.0), r);
  return replace_huge(d, x, y, [](auto lane) HWY_ATTR { return std::cos(lane); });
}

template <class D>
HWY_NOINLINE hn::Vec<D> tan(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return tan(wide, w); }, x);
  } else {
    const auto [n, r] = split_angle(d, x);
    const auto z = r * r, sine = sin_reduced(d, r, z), cosine = cos_reduced(d, z);
    const auto odd = is_odd(d, n);
    const auto y = hn::IfThenElse(odd, hn::Neg(cosine), sine) / hn::IfThenElse(odd, sine, cosine);
    return replace_huge(d, x, hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y),
                        [](auto lane) HWY_ATTR { return std::tan(lane); });
  }
}

// x + x^3 p(x^2) = asin(x) for |x| <= 1/2
template <class D>
HWY_INLINE hn::Vec<D> asin_reduced(D d, hn::Vec<D> x, hn::Vec<D> z) {
  const auto p = polynomial(d, z, 0.16666666666666666, 0.07500000000000118, 0.044642857142551895, 0.03038194447553234,
                            0.02237215744350722, 0.017352816540325496, 0.01396378001220357, 0.011566459612121669,
                            0.009621842970100282, 0.009319560794767446, 0.0030448799094556773, 0.019554513336123378,
                            -0.01924167174674304, 0.02961201126495512);
  return hn::MulAdd(x * z, p, x);
}

// pi / 2 in two parts; the second is what the rounding of the first lost
inline constexpr double kHalfPiHigh = 1.5707963267948966;
inline constexpr double kHalfPiLow = 6.123233995736766e-17;

// For |x| > 1/2, asin|x| = pi / 2 - 2 asin(sqrt((1 - |x|) / 2)); the inner asin is asin_part, else it is asin|x|.
template <class D>
struct AsinParts {
  hn::Mask<D> outer;
  hn::Vec<D> asin_part;
};

template <class D>
HWY_INLINE AsinParts<D> split_asin(D d, hn::Vec<D> x) {
  const auto a = hn::Abs(x), half = constant(d, 0.5);
  const auto outer = hn::Gt(a, half);
  const auto z = hn::IfThenElse(outer, (constant(d, 1.0) - a) * half, a * a);
  return {outer, asin_reduced(d, hn::IfThenElse(outer, hn::Sqrt(z), a), z)};
}

template <class D>
HWY_NOINLINE hn::Vec<D> asin(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return asin(wide, w); }, x);
  } else {
    const auto [outer, part] = split_asin(d, x);
    const auto far = constant(d, kHalfPiHigh) - (part + part - constant(d, kHalfPiLow));
    return hn::CopySign(hn::IfThenElse(outer, far, part), x);
  }
}

template <class D>
HWY_NOINLINE hn::Vec<D> acos(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return acos(wide, w); }, x);
  } else {
    const auto [outer, part] = split_asin(d, x);
    const auto high = constant(d, kHalfPiHigh), low = constant(d, kHalfPiLow);
    const auto near = high - (hn::CopySign(part, x) - low);
    const auto twice = part + part;
    const auto negative = (high + high) - (twice - (low + low));
    const auto far = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), negative, twice);
    return hn::IfThenElse(outer, far, near);
  }
}

// atan(a / b) for 0 <= a <= b, in [0, pi / 4]
template <class D>
HWY_INLINE hn::Vec<D> atan_ratio(D d, hn::Vec<D> a, hn::Vec<D> b) {
  // Beyond tan(pi / 8): atan(a / b) = pi / 4 + atan((a - b) / (a + b))
  const auto outer = hn::Gt(a, constant(d, 0.41421356237309503) * b);
  const auto t = hn::IfThenElse(outer, a - b, a) / hn::IfThenElse(outer, a + b, b);
  const auto z = t * t;
  const auto p = polynomial(d, z, -0.3333333333333333, 0.19999999999999804, -0.1428571428565962, 0.11111111105135144,
                            -0.0909090875249078, 0.07692296345833015, -0.06666424361404927, 0.05878922970309668,
                            -0.052304098866177415, 0.045513908032899016, -0.03456535729190067, 0.01627999005782057);
  const auto y = hn::MulAdd(t * z, p, t);
  const auto far = constant(d, kHalfPiHigh / 2) + (y + constant(d, kHalfPiLow / 2));
  return hn::IfThenElse(outer, far, y);
}

template <class D>
HWY_NOINLINE hn::Vec<D> atan(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return atan(wide, w); }, x);
  } else {
    const auto a = hn::Abs(x), one = constant(d, 1.0);
    const auto steep = hn::Gt(a, one);
    const auto y = atan_ratio(d, hn::IfThenElse(steep, one, a), hn::IfThenElse(steep, a, one));
    const auto far = constant(d, kHalfPiHigh) - (y - constant(d, kHalfPiLow));
    return hn::CopySign(hn::IfThenElse(steep, far, y), x);
  }
}

// The angle of the point (x, y)
template <class D>
HWY_NOINLINE hn::Vec<D> atan2(D d, hn::Vec<D> y, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto v, auto w) HWY_ATTR { return atan2(wide, v, w); }, y, x);
  } else {
    const auto zero = hn::Zero(d), one = constant(d, 1.0), ax = hn::Abs(x), ay = hn::Abs(y);
    const auto steep = hn::Gt(ay, ax);
    auto a = hn::IfThenElse(steep, ax, ay), b = hn::IfThenElse(steep, ay, ax);
    // Keep a + b and the products of denormals in range; 0 / 0 becomes 0 / 1, infinity / infinity 1 / 1
    const auto factor = hn::IfThenElse(hn::Gt(b, constant(d, 0x1p900)), constant(d, 0x1p-100),
                                       hn::IfThenElse(hn::Lt(b, constant(d, 0x1p-900)), constant(d, 0x1p100), one));
    const auto both_infinite = hn::Eq(a, infinity(d));
    a = hn::IfThenElse(both_infinite, one, a * factor);
    b = hn::IfThenElse(hn::Or(both_infinite, hn::Eq(b, zero)), one, b * factor);
    const auto high = constant(d, kHalfPiHigh), low = constant(d, kHalfPiLow);
    auto angle = atan_ratio(d, a, b);
    angle = hn::IfThenElse(steep, high - (angle - low), angle);
    const auto x_negative = hn::Lt(hn::CopySign(one, x), zero);
    angle = hn::IfThenElse(x_negative, (high + high) - (angle - (low + low)), angle);
    return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), not_a_number(d), hn::CopySign(angle, y));
  }
}

}  // namespace thalweg::HWY_NAMESPACE::math
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
