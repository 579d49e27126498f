// The part of a row that softmax and cross-entropy share. Included once per target.
#if defined(THALWEG_CPU_KERNELS_ROW_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_ROW_SOFTMAX_INL_H
#undef THALWEG_CPU_KERNELS_ROW_SOFTMAX_INL_H
#else
#define THALWEG_CPU_KERNELS_ROW_SOFTMAX_INL_H
#endif

#include <type_traits>

#include "thalweg/backend/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {

// x [n]. A NaN may be passed over: it returns in every sum over the row.
template <class S, class T = Wide<S>>
HWY_INLINE T row_maximum(const S* x, std::int64_t n) {
  Lanes<T> top(kMinusInfinity<T>);
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR { top = max(top, chunk.load(x, kMinusInfinity<T>)); });
  return maximum(top);
}

// sum(exp(x - top)) over x [n]; visit(chunk, exp(x - top)) sees every term.
template <class S, class T = Wide<S>, class Visit>
HWY_INLINE T sum_of_exp(const S* x, std::int64_t n, std::type_identity_t<T> top, Visit visit) {
  Lanes<T> total(T(0));
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR {
    const Lanes<T> e = exp(chunk.load(x, kMinusInfinity<T>) - Lanes<T>(top));
    visit(chunk, e);
    total = total + e;
  });
  return sum(total);
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
