#pragma once

// A product of few rows with a transposed B, which is to be multiplied along its stored rows: computed as
// C^T = B A^T, where rows of B are broadcast in place and all of A^T fits a vector or a few.
#include <algorithm>

#include "thalweg/backend/cpu/builtin/gemm_kernels.h"
#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu {

class TurnedTile {
 public:
  explicit TurnedTile(const GemmTile& tile) : tile_(tile) {}

  // The library packs all of B, however few rows there are. [m, 512] [512, 512]^T on two threads of a Zen 4: 166
  // instead of 95 GFLOP/s for 16 rows, 176 instead of 131 for 32, 201 instead of 160 for 64; [m, 1024] [1024, 1024]^T:
  // 137 instead of 87 for 24, 154 instead of 121 for 48, 188 instead of 162 for 128. In shallow products the copies
  // cost more than they save.
  static bool pays(const GemmTile& tile) {
    return tile.dtype == DType::f32 && tile.transpose_b && !tile.transpose_a && fills_lanes(tile.m) && tile.k >= 192;
  }
  // At most a quarter of the lanes are idle.
  static bool fills_lanes(std::int64_t rows) { return rows >= 16 && rows <= 128 && 3 * round_up(rows, 16) <= 4 * rows; }

  // A^T, which all tiles of a product read.
  static std::size_t turned_bytes(std::int64_t m, std::int64_t k) { return bytes(k * m); }
  static void turn(const float* a, std::int64_t m, std::int64_t k, float* turned_a) {
    parallel_ranges(k, ceil_div(4 * 1024, m), [&](std::int64_t begin, std::int64_t end) {
      strided_copy(a + begin, {1, k}, turned_a + begin * m, {m, 1}, {end - begin, m}, sizeof(float));
    });
  }

  std::size_t scratch_bytes() const { return bytes(std::min(tile_.n, kColumns) * tile_.m); }

  void run(const float* turned_a, const float* b, float* c, std::byte* scratch) const {
    for (std::int64_t first = 0; first < tile_.n; first += kColumns)
      run_columns(std::min(kColumns, tile_.n - first), turned_a, b + first * tile_.ldb,
                  reinterpret_cast<float*>(scratch), c + first);
  }

 private:
  static constexpr std::int64_t kColumns = 256;  // of C at a time: they stay in the second-level cache
  static std::size_t bytes(std::int64_t floats) { return align_up(static_cast<std::size_t>(floats) * sizeof(float)); }

  void run_columns(std::int64_t columns, const float* turned_a, const float* b, float* turned_c, float* c) const {
    if (tile_.accumulate) strided_copy(c, {1, tile_.ldc}, turned_c, {tile_.m, 1}, {columns, tile_.m}, sizeof(float));
    builtin::Product<float> product{};
    product.m = columns, product.n = tile_.m, product.k = tile_.k;
    product.a = b, product.a_row = tile_.ldb, product.a_depth = 1;
    product.b = turned_a, product.b_depth = tile_.m, product.b_column = 1;
    product.c = turned_c, product.ldc = tile_.m;
    product.accumulate = tile_.accumulate;
    builtin::multiply(product, nullptr);
    strided_copy(turned_c, {1, tile_.m}, c, {tile_.ldc, 1}, {tile_.m, columns}, sizeof(float));
  }

  const GemmTile& tile_;
};

}  // namespace thalweg::cpu
