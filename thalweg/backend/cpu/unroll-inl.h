// Loops written out, so that arrays of vectors stay in registers. Included once per target.
#if defined(THALWEG_BACKEND_CPU_UNROLL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_UNROLL_INL_H_
#undef THALWEG_BACKEND_CPU_UNROLL_INL_H_
#else
#define THALWEG_BACKEND_CPU_UNROLL_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>
#include <utility>

// A lambda that holds vectors in registers must not become a call.
#ifndef THALWEG_INLINE_LAMBDA
#define THALWEG_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {

template <class F, int... kIndex>
HWY_INLINE void unroll(F f, std::integer_sequence<int, kIndex...>) {
  (f(std::integral_constant<int, kIndex>{}), ...);
}

// f(0), f(1), … f(kCount - 1), each with a constant.
template <int kCount, class F>
HWY_INLINE void unroll(F f) {
  unroll(f, std::make_integer_sequence<int, kCount>{});
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
