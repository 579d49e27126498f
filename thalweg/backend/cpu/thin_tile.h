#pragma once

// A product of few rows with B in rows: B is read in place, once from memory and ahead of its use, and A is packed.
#include <algorithm>

#include "thalweg/backend/cpu/builtin/gemm_kernels.h"
#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu {

class ThinTile {
 public:
  explicit ThinTile(const GemmTile& tile) : tile_(tile) {}

  std::size_t scratch_bytes() const {
    return align_up(static_cast<std::size_t>(tile_.m * std::min(tile_.k, builtin::kBlockDepth)) * sizeof(float));
  }

  void run(const float* a, const float* b, float* c, std::byte* scratch) const {
    builtin::Product<float> product{};
    product.m = tile_.m, product.n = tile_.n, product.k = tile_.k;
    product.a = a, product.a_row = tile_.lda, product.a_depth = 1;
    product.b = b, product.b_depth = tile_.ldb, product.b_column = 1;
    product.c = c, product.ldc = tile_.ldc;
    product.accumulate = tile_.accumulate;
    product.b_in_place = true;
    builtin::multiply(product, reinterpret_cast<float*>(scratch));
  }

 private:
  const GemmTile& tile_;
};

}  // namespace thalweg::cpu
