#pragma once

#include "thalweg/backend/cpu/gemm_tile.h"

namespace thalweg::cpu {

// Who computes the tiles of a product.
enum class Way : std::uint8_t {
  builtin,
  thin,    // built-in, B read in place
  narrow,  // built-in, few columns or little depth
  turned,  // as C^T = B A^T
  onednn,
  widened,  // 16-bit floats through f32 products of oneDNN
  amx,
};

Way way_of(Provider provider, const Gemm& gemm);

// Tiles of one batch entry, or a few whole entries a task where they are small.
struct Partition {
  std::int64_t entries = 1, m_tile = 0, n_tile = 0, k_block = 0;
  std::int64_t m_tiles = 1, n_tiles = 1, k_blocks = 1, tasks = 1;
};

// Sums are cut by shape and dtype alone, so that results have the same bits for any number of threads.
Partition partition_of(const Gemm& gemm, Way way);

DType result_dtype(const Gemm& gemm);
double flops_of(const Gemm& gemm);

// A product in one tile.
GemmTile whole(const Gemm& gemm);
// The tile of a product at these places of its partition.
GemmTile tile_at(const Gemm& gemm, const Partition& partition, std::int64_t mi, std::int64_t ni, std::int64_t ki);

}  // namespace thalweg::cpu
