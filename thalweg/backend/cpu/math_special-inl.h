// The error function, its complement and the logarithm of the gamma function.
#if defined(THALWEG_BACKEND_CPU_MATH_SPECIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_MATH_SPECIAL_INL_H_
#undef THALWEG_BACKEND_CPU_MATH_SPECIAL_INL_H_
#else
#define THALWEG_BACKEND_CPU_MATH_SPECIAL_INL_H_
#endif

#include "thalweg/backend/cpu/math_basic-inl.h"
#include "thalweg/backend/cpu/math_exp_log-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE::math {

// erfc(a) for a >= 0 in double: exp(-a^2) times a function of slow change, fitted in (a - 3) / (a + 3)
template <class D>
HWY_INLINE hn::Vec<D> erfc_positive(D d, hn::Vec<D> a) {
  const hn::RebindToUnsigned<D> du;
  const auto bounded = abs_at_most(d, a, 28.0);  // 0 after rounding beyond
  const auto three = constant(d, 3.0), one = constant(d, 1.0);
  const auto q = (bounded - three) / (bounded + three);
  const auto p =
      polynomial(d, q, 1.2530080582697296, -0.1356211061245807, -0.047562294353446374, 0.12964515870270552,
                 -0.11927366341552853, 0.06830802734580459, -0.02377051491423367, 0.002529391788270445,
                 0.001888690312003782, -0.0007798320379611115, -0.00010515949033775975, 0.00012509815174864322,
                 4.948147875576539e-06, -2.009663087595395e-05, -7.275875746667183e-07, 3.463997532352904e-06,
                 3.4899197889744293e-07, -6.050048623933503e-07, -1.311166137536459e-07, 9.186243026143847e-08,
                 3.29163439676632e-08, -8.500119502115306e-09, -4.210104975119195e-09);
  // a^2 = high^2 + low, where high^2 is exact
  const auto high = hn::And(bounded, hn::BitCast(d, hn::Set(du, 0xFFFFFFFFF8000000u)));
  const auto low = (bounded - high) * (bounded + high);
  const auto [n, r] = split_exp(d, hn::Neg(high * high));
  const auto exponential = scale(d, one + expm1_reduced(d, r - low), n);
  return exponential * (p / (one + bounded + bounded));
}

template <class D>
HWY_INLINE hn::Vec<D> erf_float(D d, hn::Vec<D> x) {
  const auto a = abs_at_most(d, x, 4.0);  // 1 after rounding beyond
  const auto p = polynomial(d, a * a, 0.128379166, -0.37612626, 0.112835944, -0.0268542115, 0.00518908724,
                            -0.00080168643, 7.87587487e-05);
  const auto small = hn::MulAdd(a, p, a);
  // erf(a) = 1 - exp(a q(a) - a)
  const auto q = polynomial(d, a, -0.128678203, -0.634984434, -0.106584698, 0.0241165441, -0.00383162452,
                            0.000373447809, -1.6588685e-05);
  const auto large = constant(d, 1.0) - exp_moderate(d, hn::MulSub(a, q, a));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, constant(d, 1.0)), small, large), x);
}

template <class D>
HWY_NOINLINE hn::Vec<D> erf_double(D d, hn::Vec<D> x) {
  const auto a = hn::Abs(x);
  const auto p =
      polynomial(d, a * a, 0.1283791670955126, -0.3761263890318374, 0.11283791670954493, -0.026866170644973524,
                 0.00522397762340871, -0.0008548326868599297, 0.00012055325494924972, -1.4925411533551613e-05,
                 1.6457013907764837e-06, -1.6293444273884912e-07, 1.4147272175166887e-08, -8.727804892971983e-10);
  const auto small = hn::MulAdd(a, p, a);
  const auto large = constant(d, 1.0) - erfc_positive(d, a);
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, constant(d, 0.85)), small, large), x);
}

template <class D>
HWY_INLINE hn::Vec<D> erf(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return erf_float(d, x);
  } else {
    return erf_double(d, x);
  }
}

template <class D>
HWY_NOINLINE hn::Vec<D> erfc(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D>) {
    return in_double(
        d, [](auto wide, auto w) HWY_ATTR { return erfc(wide, w); }, x);
  } else {
    const auto y = erfc_positive(d, hn::Abs(x));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), constant(d, 2.0) - y, y);
  }
}

// log|gamma(x)|. Negative arguments need care at every zero and pole, and no training step is bound by it: libm's
// lgamma_r (lgamma itself writes a global) called per lane, in double also for float.
template <class D>
HWY_INLINE hn::Vec<D> lgamma(D d, hn::Vec<D> x) {
  return per_lane(
      d,
      [](auto lane) HWY_ATTR {
        int sign_of_gamma = 0;
        return static_cast<hn::TFromD<D>>(::lgamma_r(static_cast<double>(lane), &sign_of_gamma));
      },
      x);
}

}  // namespace thalweg::HWY_NAMESPACE::math
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
