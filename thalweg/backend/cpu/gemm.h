#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thalweg/core/dtype.h"
#include "thalweg/core/region.h"

namespace thalweg::cpu {

// C[batch, m, n] = op(A) op(B), all dense and row-major. Sums are f32 for f16 and bf16, which are rounded once at the
// end, unless C is to be f32; integers wrap around.
struct Gemm {
  DType dtype = DType::f32;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false;   // A is stored [k, m] instead of [m, k]
  bool transpose_b = false;   // B is stored [n, k] instead of [k, n]
  std::int64_t stride_a = 0;  // elements between batch entries; 0: one matrix for all
  std::int64_t stride_b = 0;
  bool accumulate = false;   // C += instead of C =
  bool wide_result = false;  // of f16 and bf16: C is f32
};

// Bytes of scratch, 64-byte aligned. It grows with the number of threads; with a smaller workspace that still holds
// one worker's share fewer workers take part. Results do not depend on it.
std::size_t gemm_workspace(const Gemm& gemm);

// done: told what stands of C, whose rows are those of all entries; null: nobody asks.
void gemm(const Gemm& gemm, const void* a, const void* b, void* c, std::span<std::byte> workspace,
          const OnRegion* done = nullptr);

}  // namespace thalweg::cpu
