#pragma once

#include <algorithm>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu {

// A tile of 16-bit floats for a library that multiplies f32 alone: blocks of A and B and, if it is narrow, C as f32 in
// the scratch.
class WidenedTile {
 public:
  explicit WidenedTile(const GemmTile& tile) : tile_(tile), depth_(std::min(tile.k, kDepth)) {}

  std::size_t scratch_bytes() const {
    std::size_t library = 0;
    for (std::int64_t p = 0; p < tile_.k; p += std::max(depth_, (tile_.k - 1) / depth_ * depth_))  // the first and last
      library = std::max(library, onednn::gemm_scratch(block_at(p)));
    return own_bytes() + align_up(library);
  }
  bool is_supported() const { return onednn::supported(block_at(0)); }

  template <class Small>
  void run(const Small* a, const Small* b, void* c, std::byte* scratch) const {
    auto* wide_a = reinterpret_cast<float*>(scratch);
    auto* wide_b = reinterpret_cast<float*>(scratch + bytes(tile_.m * depth_));
    auto* wide_c = reinterpret_cast<float*>(scratch + bytes(tile_.m * depth_) + bytes(depth_ * tile_.n));
    for (std::int64_t p = 0; p < tile_.k; p += depth_) {
      const GemmTile block = block_at(p);
      widen_rows(a + (tile_.transpose_a ? p * tile_.lda : p), tile_.transpose_a ? block.k : tile_.m, block.lda,
                 tile_.lda, wide_a);
      widen_rows(b + (tile_.transpose_b ? p : p * tile_.ldb), tile_.transpose_b ? tile_.n : block.k, block.ldb,
                 tile_.ldb, wide_b);
      onednn::gemm_tile(block, wide_a, wide_b, is_wide() ? c : wide_c, scratch + own_bytes());
    }
    if (!is_wide()) narrow_sums(tile_, wide_c, static_cast<Small*>(c));
  }

 private:
  static constexpr std::int64_t kDepth = 512;

  // Depths p … p + depth_ of the product.
  GemmTile block_at(std::int64_t p) const {
    GemmTile block = tile_;
    block.dtype = block.out = DType::f32;
    block.k = std::min(depth_, tile_.k - p);
    block.lda = tile_.transpose_a ? tile_.m : block.k;
    block.ldb = tile_.transpose_b ? block.k : tile_.n;
    block.ldc = is_wide() ? tile_.ldc : tile_.n;
    block.accumulate = p > 0 || (is_wide() && tile_.accumulate);
    return block;
  }
  std::size_t own_bytes() const {
    return bytes(tile_.m * depth_) + bytes(depth_ * tile_.n) + (is_wide() ? 0 : bytes(tile_.m * tile_.n));
  }
  static std::size_t bytes(std::int64_t floats) { return align_up(static_cast<std::size_t>(floats) * sizeof(float)); }
  bool is_wide() const { return tile_.out == DType::f32; }

  template <class Small>
  static void widen_rows(const Small* from, std::int64_t rows, std::int64_t columns, std::int64_t ld, float* to) {
    if (ld == columns) return widen(from, rows * columns, to);
    for (std::int64_t i = 0; i < rows; ++i) widen(from + i * ld, columns, to + i * columns);
  }

  const GemmTile& tile_;
  const std::int64_t depth_;
};

}  // namespace thalweg::cpu
