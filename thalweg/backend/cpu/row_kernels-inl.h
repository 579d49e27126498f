// The rows as chunk loops over one compute type T. Included once per target.
#if defined(THALWEG_BACKEND_CPU_ROW_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_ROW_KERNELS_INL_H_
#undef THALWEG_BACKEND_CPU_ROW_KERNELS_INL_H_
#else
#define THALWEG_BACKEND_CPU_ROW_KERNELS_INL_H_
#endif

#include "thalweg/backend/cpu/row_kernels.h"
#include "thalweg/backend/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE {

#define TW_LOAD(p) Vector<D>(hn::LoadU(d, p + i))
#define TW_KERNEL(expression)                                                                         \
  [](const T* xs, [[maybe_unused]] const T* zs, [[maybe_unused]] const T* as, T* ys, std::size_t n) { \
    using D = hn::ScalableTag<T>;                                                                     \
    const D d;                                                                                        \
    for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(result(d, expression), d, ys + i);   \
  }

template <class T>
RowKernel<T> row_kernel(Row row) {
  static constexpr RowKernel<T> kernels[] = {
#define TW_PRIMITIVE1(name, dx, kind, domain) TW_UNARY(name, , dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain) TW_BINARY(name, , dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain) TW_TERNARY(name, , dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) TW_KERNEL(name(TW_LOAD(xs))),
#define TW_BINARY(name, y, dx, dz, kind, domain) TW_KERNEL(name(TW_LOAD(xs), TW_LOAD(zs))),
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) TW_KERNEL(name(TW_LOAD(xs), TW_LOAD(zs), TW_LOAD(as))),
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"
  };
  return kernels[static_cast<int>(row)];
}

#undef TW_LOAD
#undef TW_KERNEL

}  // namespace thalweg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
