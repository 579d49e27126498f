// The rows as functions of vectors. Included once per target.
#if defined(THALWEG_BACKEND_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_ROWS_INL_H_
#undef THALWEG_BACKEND_CPU_ROWS_INL_H_
#else
#define THALWEG_BACKEND_CPU_ROWS_INL_H_
#endif

#include "thalweg/backend/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE {

// Row functions that other rows call; primitives come from Vector by argument-dependent lookup.
#define TW_PRIMITIVE1(name, dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) \
  template <class D>                        \
  auto name(Vector<D> x);
#define TW_BINARY(name, y, dx, dz, kind, domain) \
  template <class D>                             \
  auto name(Vector<D> x, Vector<D> z);
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) \
  template <class D>                                  \
  auto name(Vector<D> x, Vector<D> z, Vector<D> a);
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"

#define TW_PRIMITIVE1(name, dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) \
  template <class D>                        \
  HWY_INLINE auto name(Vector<D> x) {       \
    return y;                               \
  }
#define TW_BINARY(name, y, dx, dz, kind, domain)   \
  template <class D>                               \
  HWY_INLINE auto name(Vector<D> x, Vector<D> z) { \
    return y;                                      \
  }
#define TW_TERNARY(name, y, dx, dz, da, kind, domain)           \
  template <class D>                                            \
  HWY_INLINE auto name(Vector<D> x, Vector<D> z, Vector<D> a) { \
    return y;                                                   \
  }
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"

template <class D>
HWY_INLINE hn::Vec<D> result(D, Vector<D> y) {
  return y.v;
}
template <class D>
HWY_INLINE hn::Vec<D> result(D d, Mask<D> y) {
  return hn::IfThenElseZero(y.m, hn::Set(d, 1));
}

}  // namespace thalweg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
