// Rounding to what 16-bit floats can hold. Included once per target.
#if defined(THALWEG_BACKEND_CPU_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_ROUNDING_INL_H_
#undef THALWEG_BACKEND_CPU_ROUNDING_INL_H_
#else
#define THALWEG_BACKEND_CPU_ROUNDING_INL_H_
#endif

#include "thalweg/backend/cpu/math_basic-inl.h"
#include "thalweg/core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE::math {

// The baseline has no instruction for halves, and Highway's substitute cuts bits off instead of rounding.
inline constexpr bool kHasHalves = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

// The bits of a float, rounded to nearest even so that the upper 16 are the bf16; NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> rounded_bits(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> u;
  const auto bits = hn::BitCast(u, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(u, 0x400000));
  return hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(hn::BitCast(d, bits))), quiet, rounded);
}

template <class D>
HWY_INLINE hn::Vec<D> round_to_bf16(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D> && !kEmulated) {
    const hn::RebindToUnsigned<D> u;
    return hn::BitCast(d, hn::And(rounded_bits(d, x), hn::Set(u, 0xffff0000)));
  } else {
    return per_lane(
        d, [](auto lane) HWY_ATTR { return static_cast<float>(BFloat16(static_cast<float>(lane))); }, x);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> round_to_f16(D d, hn::Vec<D> x) {
  if constexpr (kIsFloat<D> && kHasHalves) {
    return hn::PromoteTo(d, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), x));
  } else {
    return per_lane(
        d, [](auto lane) HWY_ATTR { return static_cast<float>(Half(static_cast<float>(lane))); }, x);
  }
}

}  // namespace thalweg::HWY_NAMESPACE::math
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
