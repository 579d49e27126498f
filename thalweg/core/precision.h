#pragma once

#include <cstdint>

#include "thalweg/core/dtype.h"

namespace thalweg {

// What a compiled step computes its products in, and keeps its activations in. Variables, their gradients at the
// optimizer, losses and statistics are f32 in all of them.
enum class Precision : std::uint8_t { f32, bf16, f16 };

constexpr DType dtype_of(Precision precision) {
  return precision == Precision::bf16 ? bf16 : precision == Precision::f16 ? f16 : f32;
}

constexpr bool is_narrow(DType dtype) { return dtype == f16 || dtype == bf16; }

}  // namespace thalweg
