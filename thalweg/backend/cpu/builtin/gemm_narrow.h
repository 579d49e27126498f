#pragma once

#include "thalweg/backend/cpu/builtin/gemm_kernels.h"

namespace thalweg::cpu::builtin {

// Products of few columns or little depth, whose time goes by the one large operand or result: that is walked once, row
// after row as it lies in memory. f32 and f64.
inline constexpr std::int64_t kNarrowColumns = 24;  // at most
inline constexpr std::int64_t kNarrowDepth = 16;    // at most, whatever the columns

// scratch holds narrow_scratch elements.
std::int64_t narrow_scratch(const Product<float>& product);  // of either type
void multiply_narrow(const Product<float>& product, float* scratch);
void multiply_narrow(const Product<double>& product, double* scratch);

}  // namespace thalweg::cpu::builtin
