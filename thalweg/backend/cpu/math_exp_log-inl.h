// Exponentials, logarithms, hyperbolic functions and their inverses, powers.
#if defined(THALWEG_BACKEND_CPU_MATH_EXP_LOG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_MATH_EXP_LOG_INL_H_
#undef THALWEG_BACKEND_CPU_MATH_EXP_LOG_INL_H_
#else
#define THALWEG_BACKEND_CPU_MATH_EXP_LOG_INL_H_
#endif

#include "thalweg/backend/cpu/math_basic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE::math {

// ln 2 in two parts; the product of the first with any exponent is exact.
template <class D>
inline constexpr double kLn2High = kIsFloat<D> ? 0.693359375 : 6.93147180369123816490e-01;
template <class D>
inline constexpr double kLn2Low = kIsFloat<D> ? -2.12194440054690583e-4 : 1.90821492927058770002e-10;

template <class D>
struct ExpParts {
  hn::Vec<D> n;  // integer
  hn::Vec<D> r;  // |r| <= ln 2 / 2
};

// x = n ln 2 + r
template <class D>
HWY_INLINE ExpParts<D> split_exp(D d, hn::Vec<D> x) {
  const auto n = hn::MulAdd(x, constant(d, 1.4426950408889634), rounder(d)) - rounder(d);
  const auto r = hn::NegMulAdd(n, constant(d, kLn2High<D>), x);
  return {n, hn::NegMulAdd(n, constant(d, kLn2Low<D>), r)};
}

// exp(r) - 1 for the r of split_exp
template <class D>
HWY_INLINE hn::Vec<D> expm1_reduced(D d, hn::Vec<D> r) {
  hn::Vec<D> q;
  if constexpr (kIsFloat<D>) {
    q = polynomial(d, r, 0.5, 0.166665763, 0.0416665524, 0.00836333353, 0.00139263761);
  } else {
    q = polynomial(d, r, 0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333325985, 0.0013888888888883642,
                   0.00019841269875342141, 2.4801587325920163e-05, 2.7557254740405416e-06, 2.7557273171941026e-07,
                   2.5105490906986696e-08, 2.091488256348507e-09);
  }
  return hn::MulAdd(r * r, q, r);
}

// 2^n for an integer n of the normal range
template <class D>
HWY_INLINE hn::Vec<D> power_of_2(D d, hn::Vec<D> n) {
  const hn::RebindToUnsigned<D> du;
  constexpr int kMantissaBits = hwy::MantissaBits<hn::TFromD<D>>();
  const auto biased = n + constant(d, kIsFloat<D> ? 0x1.8p23 + 127 : 0x1.8p52 + 1023);
  return hn::BitCast(d, hn::ShiftLeft<kMantissaBits>(hn::BitCast(du, biased)));
}

// x 2^n in two steps, so that overflow and denormals are rounded once
template <class D>
HWY_INLINE hn::Vec<D> scale(D d, hn::Vec<D> x, hn::Vec<D> n) {
  const auto half = hn::MulAdd(n, constant(d, 0.5), rounder(d)) - rounder(d);
  return x * power_of_2(d, half) * power_of_2(d, n - half);
}

// Bounds beyond which exp is 0 or infinite after rounding
template <class D>
inline constexpr double kExpLow = kIsFloat<D> ? -104.0 : -746.0;
template <class D>
inline constexpr double kExpHigh = kIsFloat<D> ? 89.0 : 710.0;

template <class D>
HWY_INLINE hn::Vec<D> exp(D d, hn::Vec<D> x) {
  const auto [n, r] = split_exp(d, clamp(d, x, kExpLow<D>, kExpHigh<D>));
  return scale(d, constant(d, 1.0) + expm1_reduced(d, r), n);
}

// exp without overflow or denormals: for |x| < 80
template <class D>
HWY_INLINE hn::Vec<D> exp_moderate(D d, hn::Vec<D> x) {
  const auto [n, r] = split_exp(d, x);
  return (constant(d, 1.0) + expm1_reduced(d, r)) * power_of_2(d, n);
}

template <class D>
HWY_INLINE hn::Vec<D> expm1(D d, hn::Vec<D> x) {
  const auto [n, r] = split_exp(d, clamp(d, x, -40.0, kExpHigh<D>));
  const auto reduced = expm1_reduced(d, r);
  const auto half_scale = power_of_2(d, n - constant(d, 1.0));  // 2^n itself would overflow
  const auto half = hn::MulAdd(half_scale, reduced, half_scale - constant(d, 0.5));
  return hn::CopySign(hn::IfThenElse(hn::Eq(n, hn::Zero(d)), reduced, half + half), x);
}

template <class D>
struct LogParts {
  hn::Vec<D> k;  // integer
  hn::Vec<D> m;  // in [sqrt(1/2), sqrt(2))
};

// What split_log subtracts to find k
template <class D>
inline constexpr double kLogBias = kIsFloat<D> ? 0x1p23 + 127 : 0x1p52 + 1023;

// x = 2^k m for a positive normal x; bias is kLogBias, plus n if x was multiplied by 2^n
template <class D>
HWY_INLINE LogParts<D> split_log(D d, hn::Vec<D> x, hn::Vec<D> bias) {
  using Bits = hwy::MakeUnsigned<hn::TFromD<D>>;
  const hn::RebindToUnsigned<D> du;
  constexpr int kMantissaBits = hwy::MantissaBits<hn::TFromD<D>>();
  const auto one = hn::Set(du, static_cast<Bits>(kIsFloat<D> ? 0x3F800000u : 0x3FF0000000000000u));
  const auto sqrt_half = hn::Set(du, static_cast<Bits>(kIsFloat<D> ? 0x3F3504F3u : 0x3FE6A09E667F3BCDu));
  const auto bits = hn::BitCast(du, x) + (one - sqrt_half);
  const auto magic = constant(d, kIsFloat<D> ? 0x1p23 : 0x1p52);
  const auto biased = hn::BitCast(d, hn::Or(hn::ShiftRight<kMantissaBits>(bits), hn::BitCast(du, magic)));
  const auto mantissa = hn::And(bits, hn::Set(du, hwy::MantissaMask<hn::TFromD<D>>()));
  return {biased - bias, hn::BitCast(d, mantissa + sqrt_half)};
}

// log(1 + f) + k ln 2 for 1 + f in [sqrt(1/2), sqrt(2))
template <class D>
HWY_INLINE hn::Vec<D> log_reduced(D d, hn::Vec<D> f, hn::Vec<D> k) {
  const auto square = f * f, half = constant(d, 0.5);
  const auto k_low = k * constant(d, kLn2Low<D>);
  hn::Vec<D> tail;  // log(1 + f) = f - f^2 / 2 + tail
  if constexpr (kIsFloat<D>) {
    const auto p = polynomial(d, f, 0.333333313, -0.25000307, 0.200010449, -0.166412815, 0.142144963, -0.129981831,
                              0.126223192, -0.0790274367);
    tail = hn::MulAdd(f * square, p, k_low);
  } else {
    // log(1 + f) = 2 atanh(s) with s = f / (2 + f)
    const auto s = f / (constant(d, 2.0) + f);
    const auto z = s * s;
    const auto p = polynomial(d, z, 0.666666666666667, 0.3999999999989931, 0.2857142862606338, 0.22222211120449298,
                              0.1818289017031397, 0.15331686868638428, 0.14616878919029822);
    tail = hn::MulAdd(s, hn::MulAdd(z, p, half * square), k_low);
  }
  return hn::MulAdd(k, constant(d, kLn2High<D>), f + hn::NegMulAdd(half, square, tail));
}

template <class D>
HWY_INLINE hn::Vec<D> log(D d, hn::Vec<D> x) {
  const auto zero = hn::Zero(d);
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<hn::TFromD<D>>::min()));
  const auto normal = hn::IfThenElse(tiny, x * constant(d, 0x1p54), x);
  const auto bias = hn::IfThenElse(tiny, constant(d, kLogBias<D> + 54.0), constant(d, kLogBias<D>));
  const auto [k, m] = split_log(d, normal, bias);
  auto y = log_reduced(d, m - constant(d, 1.0), k);
  y = hn::IfThenElse(hn::Lt(x, infinity(d)), y, x);  // infinity and NaN
  y = hn::IfThenElse(hn::Lt(x, zero), not_a_number(d), y);
  return hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity(d)), y);
}

template <class D>
HWY_INLINE hn::Vec<D> log1p(D d, hn::Vec<D> x) {
  const auto one = constant(d, 1.0), quarter = constant(d, 0.25);
  const auto k = split_log(d, one + x, constant(d, kLogBias<D>)).k;
  // f = (1 + x) / 2^k - 1 without the rounding of 1 + x; 4 / 2^k is a normal number for all k
  const auto scale_4 = power_of_2(d, constant(d, 2.0) - k);
  const auto f = hn::MulAdd(quarter, x * scale_4, hn::MulAdd(quarter, scale_4, hn::Neg(one)));
  auto y = log_reduced(d, f, k);
  y = hn::IfThenElse(hn::Lt(x, infinity(d)), y, x);  // infinity and NaN
  y = hn::IfThenElse(hn::Lt(x, hn::Neg(one)), not_a_number(d), y);
  y = hn::IfThenElse(hn::Eq(x, hn::Neg(one)), infinity(d), y);
  return hn::CopySign(y, x);
}

template <class D>
HWY_INLINE hn::Vec<D> tanh(D d, hn::Vec<D> x) {
  const auto a = abs_at_most(d, x, kIsFloat<D> ? 10.0 : 20.0);  // 1 after rounding beyond
  const auto z = a * a;
  hn::Vec<D> p;
  if constexpr (kIsFloat<D>) {
    p = polynomial(d, z, -0.333333313, 0.133330822, -0.0539033487, 0.0212727487, -0.00654254202);
  } else {
    p = polynomial(d, z, -0.3333333333333333, 0.13333333333332467, -0.05396825396714515, 0.021869488480722565,
                   -0.008863234104802229, 0.003592106586471979, -0.001455632070932804, 0.000588792024475583,
                   -0.0002342148186711548, 8.443719567103071e-05, -2.0141494563083882e-05);
  }
  const auto small = hn::MulAdd(a * z, p, a);
  const auto one = constant(d, 1.0);
  const auto large = one - constant(d, 2.0) / (exp_moderate(d, a + a) + one);
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, constant(d, 0.55)), small, large), x);
}

// exp(|x|) / 2
template <class D>
HWY_INLINE hn::Vec<D> half_exp_abs(D d, hn::Vec<D> x) {
  const auto [n, r] = split_exp(d, abs_at_most(d, x, kExpHigh<D> + 1.0));
  const auto one = constant(d, 1.0);
  return scale(d, one + expm1_reduced(d, r), n - one);
}

template <class D>
HWY_NOINLINE hn::Vec<D> sinh(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return sinh(wide, w); }, x);
  } else {
    const auto z = x * x;
    const auto p =
        polynomial(d, z, 0.16666666666666666, 0.008333333333333333, 0.00019841269841269773, 2.755731922404034e-06,
                   2.505210836405804e-08, 1.6059048396350562e-10, 7.646625361656657e-13, 2.8445264169895285e-15);
    const auto small = hn::MulAdd(x * z, p, x);
    const auto half = half_exp_abs(d, x);
    const auto large = half - constant(d, 0.25) / half;
    return hn::CopySign(hn::IfThenElse(hn::Lt(hn::Abs(x), constant(d, 1.0)), small, large), x);
  }
}

template <class D>
HWY_NOINLINE hn::Vec<D> cosh(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return cosh(wide, w); }, x);
  } else {
    const auto half = half_exp_abs(d, x);
    return half + constant(d, 0.25) / half;
  }
}

// log1p(small), or log(large) + ln 2 where |x| is so big that 1 is lost beside it
template <class D>
HWY_INLINE hn::Vec<D> log1p_or_log_twice(D d, hn::Vec<D> small, hn::Vec<D> large) {
  const auto is_large = hn::Gt(large, constant(d, 0x1p60));
  const auto y = log1p(d, hn::IfThenElse(is_large, large, small));
  return y + hn::IfThenElseZero(is_large, constant(d, 0.6931471805599453));
}

template <class D>
HWY_NOINLINE hn::Vec<D> asinh(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return asinh(wide, w); }, x);
  } else {
    const auto a = hn::Abs(x), one = constant(d, 1.0), square = a * a;
    const auto small = a + square / (one + hn::Sqrt(square + one));
    return hn::CopySign(log1p_or_log_twice(d, small, a), x);
  }
}

template <class D>
HWY_NOINLINE hn::Vec<D> acosh(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return acosh(wide, w); }, x);
  } else {
    const auto one = constant(d, 1.0), t = x - one;
    const auto y = log1p_or_log_twice(d, t + hn::Sqrt(t * (t + constant(d, 2.0))), x);
    return hn::IfThenElse(hn::Lt(x, one), not_a_number(d), y);
  }
}

template <class D>
HWY_NOINLINE hn::Vec<D> atanh(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return atanh(wide, w); }, x);
  } else {
    const auto a = hn::Abs(x);
    return hn::CopySign(constant(d, 0.5) * log1p(d, (a + a) / (constant(d, 1.0) - a)), x);
  }
}

// x^y in double with the accuracy of a float: the error of log(x) grows by the factor |y log(x)|
template <class D>
HWY_INLINE hn::Vec<D> pow_to_float(D d, hn::Vec<D> x, hn::Vec<D> y) {
  const auto zero = hn::Zero(d), one = constant(d, 1.0), a = hn::Abs(x), half_y = y * constant(d, 0.5);
  auto p = exp(d, y * log(d, a));
  p = hn::IfThenElse(hn::Or(hn::Eq(y, zero), hn::Eq(a, one)), one, p);
  const auto integer = hn::Eq(round(d, y), y);
  const auto odd = hn::And(integer, hn::Not(hn::Eq(round(d, half_y), half_y)));
  p = hn::IfThenElse(odd, hn::CopySign(p, x), p);
  const auto finite_negative = hn::And(hn::Lt(x, zero), hn::Lt(a, infinity(d)));
  return hn::IfThenElse(hn::AndNot(integer, finite_negative), not_a_number(d), p);
}

template <class D>
HWY_NOINLINE hn::Vec<D> pow(D d, hn::Vec<D> x, hn::Vec<D> y) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto base, auto power) HWY_ATTR { return pow_to_float(wide, base, power); }, x, y);
  } else {
    // In double the logarithm would be needed to 65 bits; powers of doubles are rare in training.
    return per_lane(
        d, [](double base, double power) HWY_ATTR { return std::pow(base, power); }, x, y);
  }
}

}  // namespace thalweg::HWY_NAMESPACE::math
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
