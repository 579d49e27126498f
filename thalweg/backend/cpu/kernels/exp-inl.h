// exp and 2^x on Highway vectors of float or double; NaN stays NaN. Included once per target.
#if defined(THALWEG_CPU_KERNELS_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_EXP_INL_H
#undef THALWEG_CPU_KERNELS_EXP_INL_H
#else
#define THALWEG_CPU_KERNELS_EXP_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  static constexpr int kMantissaBits = 23, kBias = 127;
  static constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
  static constexpr float kLow = -104.0f, kHigh = 89.0f;  // below: 0, above: infinity
  static constexpr float kLog2High = 0.693359375f, kLog2Low = -2.12194440e-4f;
  // Taylor coefficients of exp, highest first: the error for |x| <= ln(2)/2 is 5e-9.
  static constexpr float kExp[] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 0.5f, 1.f, 1.f};
  // Minimax coefficients of 2^x for |x| <= 1/2, relative error 7e-8.
  static constexpr float kExp2[] = {
      0.00015345812f, 0.00133999314f, 0.00961848896f, 0.0555032878f, 0.240226469f, 0.693147206f, 1.f};
};

template <>
struct ExpConstants<double> {
  static constexpr int kMantissaBits = 52, kBias = 1023;
  static constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLow = -746.0, kHigh = 710.0;
  static constexpr double kLog2High = 6.93147180369123816490e-01, kLog2Low = 1.90821492927058770002e-10;
  static constexpr double kExp[] = {
      1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040,
      1. / 720,        1. / 120,       1. / 24,       1. / 6,       0.5,         1.,         1.};
};

template <class D, class V, std::size_t kTerms>
HWY_INLINE V horner(D d, V x, const hn::TFromD<D> (&coefficients)[kTerms]) {
  V sum = hn::Set(d, coefficients[0]);
  HWY_UNROLL(16)
  for (std::size_t i = 1; i < kTerms; ++i) sum = hn::MulAdd(sum, x, hn::Set(d, coefficients[i]));
  return sum;
}

// e^x, about one unit in the last place; subnormal results included.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  using C = ExpConstants<hn::TFromD<D>>;
  const hn::RebindToSigned<D> di;
  const V low = hn::Set(d, C::kLow), high = hn::Set(d, C::kHigh), rounder = hn::Set(d, C::kRounder);
  x = hn::IfThenElse(hn::Lt(x, low), low, hn::IfThenElse(hn::Gt(x, high), high, x));
  const V shifted = hn::MulAdd(x, hn::Set(d, hn::TFromD<D>(1.4426950408889634)), rounder);
  const V n = hn::Sub(shifted, rounder);
  const V rest = hn::NegMulAdd(n, hn::Set(d, C::kLog2Low), hn::NegMulAdd(n, hn::Set(d, C::kLog2High), x));
  // Two factors 2^a 2^(n - a): 2^n alone leaves the range of exponents where the result is subnormal or infinite.
  const auto exponent = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, rounder));
  const auto half = hn::ShiftRight<1>(exponent);
  const auto power = [&](auto e) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<C::kMantissaBits>(hn::Add(e, hn::Set(di, C::kBias))));
  };
  return hn::Mul(hn::Mul(horner(d, rest, C::kExp), power(half)), power(hn::Sub(exponent, half)));
}

// 2^x for x <= 0 (a little above is fine). Results below the smallest normal number are 0, exactly 0 for -infinity.
template <class D, class V>
HWY_INLINE V exp2_nonpositive(D d, V x) {
  using T = hn::TFromD<D>;
  using C = ExpConstants<T>;
  const hn::RebindToSigned<D> di;
  const V low = hn::Set(d, T(-C::kBias)), rounder = hn::Set(d, C::kRounder);
  x = hn::IfThenElse(hn::Lt(x, low), low, x);
  const V shifted = hn::Add(x, rounder);
  const V rest = hn::Sub(x, hn::Sub(shifted, rounder));
  // The rounder's own bits are shifted out, so the low bits of `shifted` land in the exponent field.
  const auto power =
      hn::BitCast(d, hn::ShiftLeft<C::kMantissaBits>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, C::kBias))));
  if constexpr (sizeof(T) == 4) {
    return hn::Mul(horner(d, rest, C::kExp2), power);
  } else {
    return hn::Mul(horner(d, hn::Mul(rest, hn::Set(d, T(0.69314718055994530942))), C::kExp), power);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
