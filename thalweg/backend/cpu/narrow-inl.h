// 16-bit floats as vectors of float, and the first lanes of vectors: loads and stores. Included once per target.
#if defined(THALWEG_BACKEND_CPU_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_NARROW_INL_H_
#undef THALWEG_BACKEND_CPU_NARROW_INL_H_
#else
#define THALWEG_BACKEND_CPU_NARROW_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "thalweg/backend/cpu/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE::math {

// As many neighbours as D has lanes, of any alignment.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_as(D d, const T* from) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return hn::LoadU(d, from);
  } else if constexpr (std::is_same_v<T, BFloat16> && !kEmulated) {
    const hn::RebindToUnsigned<D> u;
    const hn::Rebind<std::uint16_t, D> narrow;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(u, hn::LoadU(narrow, &from->bits))));
  } else if constexpr (std::is_same_v<T, Half> && kHasHalves) {
    const hn::Rebind<hwy::float16_t, D> narrow;
    return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from)));
  } else {
    HWY_ALIGN hn::TFromD<D> lane[hn::MaxLanes(D())];
    for (std::size_t i = 0; i < hn::MaxLanes(D()); ++i) lane[i] = from[i];
    return hn::Load(d, lane);
  }
}

template <class D, class T>
HWY_INLINE void store_as(D d, hn::Vec<D> x, T* to) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    hn::StoreU(x, d, to);
  } else if constexpr (std::is_same_v<T, BFloat16> && !kEmulated) {
    const hn::RebindToSigned<D> i;
    const hn::Rebind<std::uint16_t, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(i, hn::ShiftRight<16>(rounded_bits(d, x)))), narrow, &to->bits);
  } else if constexpr (std::is_same_v<T, Half> && kHasHalves) {
    const hn::Rebind<hwy::float16_t, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, x), narrow, reinterpret_cast<hwy::float16_t*>(to));
  } else {
    HWY_ALIGN hn::TFromD<D> lane[hn::MaxLanes(D())];
    hn::Store(x, d, lane);
    for (std::size_t i = 0; i < hn::MaxLanes(D()); ++i) to[i] = T(lane[i]);
  }
}

// The first `count` lanes of a vector, nothing behind them is touched; the others are 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* p, std::int64_t count) {
  if (count >= static_cast<std::int64_t>(hn::Lanes(d))) return hn::LoadU(d, p);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, p);
#else  // other targets may read past the end
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#endif
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(hn::Vec<D> v, D d, T* p, std::int64_t count) {
  if (count >= static_cast<std::int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, p);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(count)), d, p);
#else
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (std::int64_t i = 0; i < count; ++i) p[i] = lanes[i];
#endif
}

// load_first of one count again and again, as in the loops of small kernels: the mask is made once.
template <class D>
class FirstLanes {
 public:
  FirstLanes(D d, std::int64_t count)
      : d_(d),
        count_(std::min<std::int64_t>(count, hn::Lanes(d))),
        mask_(hn::FirstN(d, static_cast<std::size_t>(count_))) {}

  HWY_INLINE hn::Vec<D> load(const hn::TFromD<D>* p) const {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    return hn::MaskedLoad(mask_, d_, p);
#else
    return load_first(d_, p, count_);
#endif
  }

 private:
  D d_;
  std::int64_t count_;
  hn::Mask<D> mask_;
};

}  // namespace thalweg::HWY_NAMESPACE::math
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
