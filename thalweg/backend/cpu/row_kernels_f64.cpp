// Row kernels in double for every instruction set; the best one is chosen when the program runs.
#include "thalweg/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/row_kernels_f64.cpp"
#include <hwy/foreach_target.h>

#include "thalweg/backend/cpu/row_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::HWY_NAMESPACE {
RowKernel<double> row_kernel_f64(Row row) { return row_kernel<double>(row); }
}  // namespace thalweg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg {
HWY_EXPORT(row_kernel_f64);
RowKernel<double> row_kernel_f64(Row row) { return HWY_DYNAMIC_DISPATCH(row_kernel_f64)(row); }
}  // namespace thalweg
#endif
