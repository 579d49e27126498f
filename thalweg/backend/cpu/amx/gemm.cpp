// Products of bf16 over tiles.
#include "thalweg/backend/cpu/amx/gemm.h"

#include "thalweg/backend/cpu/amx/product.h"
#include "thalweg/backend/cpu/convert.h"

namespace thalweg::cpu::amx {
namespace {

template <class Out>
void run(const GemmTile& tile, const BFloat16* a, const BFloat16* b, Out* c, std::byte* scratch) {
  const auto columns = [&](std::int64_t column, BFloat16* to) {
    const std::int64_t count = std::min(kStrip, tile.n - column);
    if (tile.transpose_b) return pack_columns_transposed(b + column * tile.ldb, tile.ldb, count, tile.k, to);
    pack_columns(b + column, tile.ldb, count, tile.k, to);
  };
  const auto rows = [&](std::int64_t row, std::int64_t p, std::int64_t depth, BFloat16* to) {
    const std::int64_t count = std::min(kStrip, tile.m - row);
    if (tile.transpose_a) return pack_rows_transposed(a + p * tile.lda + row, tile.lda, count, depth, to);
    pack_rows(a + row * tile.lda + p, tile.lda, count, depth, to);
  };
  const auto store = [&](std::int64_t row, std::int64_t column, const float* block) {
    const std::int64_t m = std::min(kStrip, tile.m - row), n = std::min(kStrip, tile.n - column);
    unpack(block, m, n, tile.accumulate, c + row * tile.ldc + column, tile.ldc);
  };
  product({tile.m, tile.n, tile.k}, scratch, columns, rows, store);
}

// The sums of a deep product wait in f32 for its last part, in the scratch if C is narrower.
bool needs_sums(const GemmTile& tile) { return tile.k > kMaxDepth && tile.out != DType::f32; }

std::size_t sums_bytes(const GemmTile& tile) {
  return needs_sums(tile) ? align_up(static_cast<std::size_t>(tile.m * tile.n) * sizeof(float)) : 0;
}

void run_deep(const GemmTile& tile, const BFloat16* a, const BFloat16* b, float* c, std::byte* scratch) {
  GemmTile part = tile;
  for (std::int64_t p = 0; p < tile.k; p += kMaxDepth) {
    part.k = std::min(kMaxDepth, tile.k - p);
    part.accumulate = tile.accumulate || p > 0;
    run(part, a + (tile.transpose_a ? p * tile.lda : p), b + (tile.transpose_b ? p : p * tile.ldb), c, scratch);
  }
}

void narrow_sums(const GemmTile& tile, float* sums, BFloat16* c) {
  for (std::int64_t i = 0; i < tile.m; ++i) {
    float* row = sums + i * tile.n;
    BFloat16* to = c + i * tile.ldc;
    for (std::int64_t j = 0; tile.accumulate && j < tile.n; ++j) row[j] += static_cast<float>(to[j]);
    narrow(row, tile.n, to);
  }
}

}  // namespace

bool supported(const GemmTile& tile) { return tile.dtype == DType::bf16 && usable(); }

std::size_t gemm_scratch(const GemmTile& tile) {
  return sums_bytes(tile) + scratch_bytes({tile.m, tile.n, std::min(tile.k, kMaxDepth)});
}

void gemm_tile(const GemmTile& tile, const void* a_at, const void* b_at, void* c, std::byte* scratch) {
  const auto *a = static_cast<const BFloat16*>(a_at), *b = static_cast<const BFloat16*>(b_at);
  if (tile.out == DType::f32) return run_deep(tile, a, b, static_cast<float*>(c), scratch);
  if (!needs_sums(tile)) return run(tile, a, b, static_cast<BFloat16*>(c), scratch);
  auto* sums = reinterpret_cast<float*>(scratch);
  GemmTile wide = tile;
  wide.out = DType::f32, wide.ldc = tile.n, wide.accumulate = false;
  run_deep(wide, a, b, sums, scratch + sums_bytes(tile));
  narrow_sums(tile, sums, static_cast<BFloat16*>(c));
}

}  // namespace thalweg::cpu::amx
