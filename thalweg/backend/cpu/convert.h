#pragma once

// Whole stretches of 16-bit floats to float and back, on vectors.
#include <cstdint>

#include "thalweg/core/dtype.h"

namespace thalweg::cpu {

// What a kernel computes in for numbers stored as S: float for the 16-bit ones.
template <class S>
using Wide = std::conditional_t<std::is_same_v<S, double>, double, float>;

void widen(const BFloat16* from, std::int64_t count, float* to);
void widen(const Half* from, std::int64_t count, float* to);
// Rounded to nearest even.
void narrow(const float* from, std::int64_t count, BFloat16* to);
void narrow(const float* from, std::int64_t count, Half* to);

// f(TypeTag<S>) with the C++ type of a float dtype.
template <class F>
void with_float_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f(TypeTag<double>{});
    case DType::f16: return f(TypeTag<Half>{});
    case DType::bf16: return f(TypeTag<BFloat16>{});
    default: return f(TypeTag<float>{});
  }
}

}  // namespace thalweg::cpu
