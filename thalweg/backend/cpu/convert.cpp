#include "thalweg/backend/cpu/convert.h"

#include "thalweg/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/convert.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE {
namespace {

using Tag = hwy::HWY_NAMESPACE::ScalableTag<float>;
constexpr std::int64_t kWidth = hwy::HWY_NAMESPACE::MaxLanes(Tag());

template <class From, class To>
void convert(const From* from, std::int64_t count, To* to) {
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) math::store_as(Tag(), math::load_as(Tag(), from + i), to + i);
  for (; i < count; ++i) to[i] = To(static_cast<float>(from[i]));
}

}  // namespace

void widen_bf16(const BFloat16* from, std::int64_t count, float* to) { convert(from, count, to); }
void widen_f16(const Half* from, std::int64_t count, float* to) { convert(from, count, to); }
void narrow_bf16(const float* from, std::int64_t count, BFloat16* to) { convert(from, count, to); }
void narrow_f16(const float* from, std::int64_t count, Half* to) { convert(from, count, to); }

}  // namespace thalweg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg {

HWY_EXPORT(widen_bf16);
HWY_EXPORT(widen_f16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(narrow_f16);

namespace cpu {

void widen(const BFloat16* from, std::int64_t count, float* to) { HWY_DYNAMIC_DISPATCH(widen_bf16)(from, count, to); }
void widen(const Half* from, std::int64_t count, float* to) { HWY_DYNAMIC_DISPATCH(widen_f16)(from, count, to); }
void narrow(const float* from, std::int64_t count, BFloat16* to) { HWY_DYNAMIC_DISPATCH(narrow_bf16)(from, count, to); }
void narrow(const float* from, std::int64_t count, Half* to) { HWY_DYNAMIC_DISPATCH(narrow_f16)(from, count, to); }

}  // namespace cpu
}  // namespace thalweg
#endif
