#pragma once

#include <cstdint>

#include "thalweg/core/dtype.h"

namespace thalweg::cpu {

// The dtype that products of `dtype` are summed in.
constexpr DType sum_dtype(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

// out[i] (+)= partials[0][i] + partials[1][i] + …, in this order; partials are [count][size] of sum_dtype(out_dtype).
void sum_partials(DType out_dtype, const void* partials, std::int64_t count, std::int64_t size, void* out,
                  bool accumulate);

}  // namespace thalweg::cpu
