#pragma once

// 16-bit floats are computed in f32: for ops whose kernels know f32 and f64 only, and for sums.
#include <type_traits>

#include "thalweg/ops/cast/cast.h"

namespace thalweg {

inline DType wide(DType dtype) { return dtype == f16 || dtype == bf16 ? f32 : dtype; }
inline Tensor widen(const Tensor& x) { return cast(x, wide(x.dtype())); }

// What sums of T are kept in.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// f(TypeTag<T>) with the C++ type of f32 or f64.
template <class F>
void with_wide_type(DType dtype, F&& f) {
  if (dtype == f64)
    f(TypeTag<double>{});
  else
    f(TypeTag<float>{});
}

}  // namespace thalweg
