// The instruction set of the row kernels in use, so that code and kernels are of one kind.
#include "thalweg/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/jit/isa.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "thalweg/backend/cpu/jit/isa.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::jit::HWY_NAMESPACE {
std::optional<Isa> isa_of_target() {
#if HWY_TARGET == HWY_AVX3
  return Isa::avx512;
#elif HWY_TARGET == HWY_AVX2
  return Isa::avx2;
#else
  return std::nullopt;
#endif
}
}  // namespace thalweg::jit::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::jit {
HWY_EXPORT(isa_of_target);
std::optional<Isa> current_isa() { return HWY_DYNAMIC_DISPATCH(isa_of_target)(); }
}  // namespace thalweg::jit
#endif
