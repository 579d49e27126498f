// Row kernels in float for every instruction set; the best one is chosen when the program runs.
#include "thalweg/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/row_kernels_f32.cpp"
#include <hwy/foreach_target.h>

#include "thalweg/backend/cpu/row_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE {
RowKernel<float> row_kernel_f32(Row row) { return row_kernel<float>(row); }
}  // namespace thalweg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg {
HWY_EXPORT(row_kernel_f32);
RowKernel<float> row_kernel_f32(Row row) { return HWY_DYNAMIC_DISPATCH(row_kernel_f32)(row); }
}  // namespace thalweg
#endif
