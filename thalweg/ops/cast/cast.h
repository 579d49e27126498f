#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// x in another dtype. To 16 bits: round to nearest even; to an integer: toward zero, saturating; to boolean: not zero.
TW_API Tensor cast(const Tensor& x, DType dtype);

// What an op on both computes in: f16 or bf16 with f32 is f32, f32 with f64 is f64, an integer with a float is the
// float; anything else that differs is an error, f16 with f64 and f16 with bf16 too.
TW_API DType promote(const char* op, DType a, DType b);

}  // namespace thalweg
