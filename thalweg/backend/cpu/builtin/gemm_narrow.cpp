#include "thalweg/backend/cpu/builtin/gemm_narrow.h"

#include <algorithm>
#include <array>
#include <utility>

#include "thalweg/backend/cpu/slots.h"
#include "thalweg/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/builtin/gemm_narrow.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/builtin/gemm_across-inl.h"
#include "thalweg/backend/cpu/builtin/gemm_along-inl.h"
#include "thalweg/backend/cpu/builtin/gemm_shallow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::builtin::HWY_NAMESPACE {

template <class T>
void multiply_in_place(const Product<T>& product, T* scratch) {
  if (product.k <= kNarrowDepth) return multiply_shallow(product, scratch);
  if (product.a_row == 1) return multiply_across(product);
  multiply_along(product, scratch);
}

void narrow_f32(const Product<float>& product, float* scratch) { multiply_in_place(product, scratch); }
void narrow_f64(const Product<double>& product, double* scratch) { multiply_in_place(product, scratch); }

}  // namespace thalweg::cpu::builtin::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu::builtin {
namespace {

HWY_EXPORT(narrow_f32);
HWY_EXPORT(narrow_f64);

}  // namespace

std::int64_t narrow_scratch(const Product<float>& product) {
  if (product.k <= kNarrowDepth) return product.b_column == 1 ? 0 : product.k * product.n;
  return product.a_row == 1 ? 0 : round_up(product.k, 16) * product.n;
}

void multiply_narrow(const Product<float>& product, float* scratch) {
  HWY_DYNAMIC_DISPATCH(narrow_f32)(product, scratch);
}
void multiply_narrow(const Product<double>& product, double* scratch) {
  HWY_DYNAMIC_DISPATCH(narrow_f64)(product, scratch);
}

}  // namespace thalweg::cpu::builtin
#endif
