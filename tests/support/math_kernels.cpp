#include "tests/support/math_kernels.h"

#include "thalweg/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/support/math_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "thalweg/backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::test::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace math = thalweg::HWY_NAMESPACE::math;

#define TW_UNARY_KERNEL(name)                                                                              \
  template <class T>                                                                                       \
  void name##_kernel(const T* x, T* y, size_t n) {                                                         \
    const hn::ScalableTag<T> d;                                                                            \
    for (size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(math::name(d, hn::LoadU(d, x + i)), d, y + i); \
  }
#define TW_BINARY_KERNEL(name)                                                       \
  template <class T>                                                                 \
  void name##_kernel(const T* a, const T* b, T* y, size_t n) {                       \
    const hn::ScalableTag<T> d;                                                      \
    for (size_t i = 0; i < n; i += hn::Lanes(d)) {                                   \
      hn::StoreU(math::name(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i); \
    }                                                                                \
  }
#define TW_ENTRY(name) {#name, &name##_kernel<float>, &name##_kernel<double>},
// clang-format off
#define TW_FOR_ALL_UNARY(F)                                                             \
  F(exp) F(expm1) F(log) F(log1p) F(tanh) F(sinh) F(cosh) F(asinh) F(acosh) F(atanh)    \
  F(erf) F(erfc) F(lgamma) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan)                 \
  F(sign) F(round) F(floor) F(ceil)
// clang-format on
#define TW_FOR_ALL_BINARY(F) F(pow) F(atan2) F(max) F(min)

TW_FOR_ALL_UNARY(TW_UNARY_KERNEL)
TW_FOR_ALL_BINARY(TW_BINARY_KERNEL)

MathKernels kernels_of_target() {
  static const UnaryFunction unary[] = {TW_FOR_ALL_UNARY(TW_ENTRY)};
  static const BinaryFunction binary[] = {TW_FOR_ALL_BINARY(TW_ENTRY)};
  return {hwy::TargetName(HWY_TARGET), unary, binary};
}

#undef TW_UNARY_KERNEL
#undef TW_BINARY_KERNEL
#undef TW_ENTRY
#undef TW_FOR_ALL_UNARY
#undef TW_FOR_ALL_BINARY

}  // namespace thalweg::test::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::test {

HWY_EXPORT(kernels_of_target);

std::vector<MathKernels> math_kernels() {
  std::vector<MathKernels> all;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    all.push_back(HWY_DYNAMIC_DISPATCH(kernels_of_target)());
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return all;
}

}  // namespace thalweg::test
#endif  // HWY_ONCE
