#pragma once

#include <span>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/backend/cpu/gemm.h"
#include "thalweg/backend/cpu/provider.h"

namespace thalweg::cpu {

// A product that one thread computes: a part of a Gemm, whose matrices may be wider than the part.
struct GemmTile {
  DType dtype = DType::f32;
  DType out = DType::f32;  // dtype, or f32 for the partial sums of f16 and bf16
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // elements between stored rows
  bool accumulate = false;
  bool columns_stream = false;  // of f32 on tiles of AMX (amx/streamed.h)
  bool operator==(const GemmTile&) const = default;
};

// The sums [m, n] of a tile of f16 or bf16 to C, rounded once.
template <class Small>
void narrow_sums(const GemmTile& tile, float* sums, Small* c) {
  for (std::int64_t i = 0; i < tile.m; ++i, sums += tile.n, c += tile.ldc) {
    for (std::int64_t j = 0; tile.accumulate && j < tile.n; ++j) sums[j] += static_cast<float>(c[j]);
    narrow(sums, tile.n, c);
  }
}

namespace builtin {
// Without scratch A is read in place, which is faster for small products and slower for large ones; f16 and bf16
// need theirs.
std::size_t gemm_scratch(const GemmTile& tile);
void gemm_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch);

// The same for f32 products of few rows with B in rows: B is read in place, once from memory and ahead of its use.
std::size_t thin_scratch(const GemmTile& tile);
void thin_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch);

// The same for f32 and f64 products of few columns or little depth (gemm_narrow.h).
std::size_t narrow_scratch(const GemmTile& tile);
void narrow_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch);
}  // namespace builtin

namespace onednn {
bool supported(const GemmTile& tile);
std::size_t gemm_scratch(const GemmTile& tile);
void gemm_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch);
}  // namespace onednn

std::size_t gemm_workspace(Provider provider, const Gemm& gemm);
void gemm(Provider provider, const Gemm& gemm, const void* a, const void* b, void* c, std::span<std::byte> workspace,
          const OnRegion* done = nullptr);

}  // namespace thalweg::cpu
