// Products over tiles: of bf16, and of f32 as sums of three bf16.
#include "thalweg/backend/cpu/amx/gemm.h"

#include <cmath>

#include "thalweg/backend/cpu/amx/product.h"

namespace thalweg::cpu::amx {
namespace {

constexpr std::int64_t kPackDepth = 4 * kStep;

Shape shape_of(const GemmTile& tile) {
  return {tile.m, tile.n, std::min(tile.k, max_depth(tile.dtype)), parts_of(tile.dtype)};
}

template <class S, class Out>
void run(const GemmTile& tile, const S* a, const S* b, Out* c, std::byte* scratch) {
  const Shape shape = shape_of(tile);
  const auto columns = [&](BFloat16* to) {
    Range range;
    for (std::int64_t p = 0; p < tile.k; p += kPackDepth)  // what strips share of pages and lines is read at a time
      for (std::int64_t column = 0; column < tile.n; column += kStrip) {
        const std::int64_t count = std::min(kStrip, tile.n - column), depth = std::min(kPackDepth, tile.k - p);
        BFloat16* at = to + column / kStrip * shape.strip_size() + p / kStep * shape.step_size();
        range.add(tile.transpose_b ? pack_columns_transposed(b + column * tile.ldb + p, tile.ldb, count, depth, at)
                                   : pack_columns(b + p * tile.ldb + column, tile.ldb, count, depth, at));
      }
    return range;
  };
  const auto rows = [&](std::int64_t row, std::int64_t p, std::int64_t depth, BFloat16* to) {
    const std::int64_t count = std::min(kStrip, tile.m - row);
    if (tile.transpose_a) return pack_rows_transposed(a + p * tile.lda + row, tile.lda, count, depth, to);
    return pack_rows(a + row * tile.lda + p, tile.lda, count, depth, to);
  };
  const auto store = [&](std::int64_t row, std::int64_t column, const float* block) {
    const std::int64_t m = std::min(kStrip, tile.m - row), n = std::min(kStrip, tile.n - column);
    unpack(block, m, n, tile.accumulate, c + row * tile.ldc + column, tile.ldc);
  };
  const auto give_up = [&](std::int64_t row, std::int64_t count) {
    GemmTile part = tile;
    part.m = count;
    builtin::gemm_tile(part, a + row * (tile.transpose_a ? 1 : tile.lda), b, c + row * tile.ldc, nullptr);
  };
  Sums sums;
  if constexpr (std::is_same_v<Out, float>)
    if (!tile.accumulate) sums = {c, tile.ldc};
  product(shape, scratch, sums, columns, rows, store, give_up);
}

// The sums of a deep product wait in f32 for its last part, in the scratch if C is narrower.
bool needs_sums(const GemmTile& tile) { return tile.k > max_depth(tile.dtype) && tile.out != DType::f32; }

std::size_t sums_bytes(const GemmTile& tile) {
  return needs_sums(tile) ? align_up(static_cast<std::size_t>(tile.m * tile.n) * sizeof(float)) : 0;
}

template <class S>
void run_deep(const GemmTile& tile, const S* a, const S* b, float* c, std::byte* scratch) {
  GemmTile part = tile;
  const std::int64_t most = max_depth(tile.dtype);
  for (std::int64_t p = 0; p < tile.k; p += most) {
    part.k = std::min(most, tile.k - p);
    part.accumulate = tile.accumulate || p > 0;
    run(part, a + (tile.transpose_a ? p * tile.lda : p), b + (tile.transpose_b ? p : p * tile.ldb), c, scratch);
  }
}

}  // namespace

bool supported(const GemmTile& tile) { return (tile.dtype == DType::bf16 || tile.dtype == DType::f32) && usable(); }

// Nanoseconds of a core of Emerald Rapids: products, packing and storing, which f32 has to earn. Columns are packed for
// every 256 rows, and on two threads; vectors too wait for weights that are not in the caches.
bool pays(const GemmTile& tile) {
  if (tile.dtype != DType::f32) return true;
  const auto m = static_cast<double>(tile.m), n = static_cast<double>(tile.n), k = static_cast<double>(tile.k);
  const double columns = tile.transpose_b ? 0.5 : 0.4, rows = tile.transpose_a ? 0.4 : 0.3;
  const double times = std::max(std::ceil(m / 256), n <= 320 ? 2.0 : 1.0);
  const double packs = columns * n * k * times + rows * m * k * std::ceil(n / 640);
  const double products = 2 * std::ceil(m / kStrip) * kStrip * n * k / 400;
  const double sums = m * n * (0.15 + 0.25 * (std::ceil(k / 256) - 1));
  return products + packs + sums < 0.9 * (2 * m * n * k / 150 + 0.15 * n * k);
}

std::size_t gemm_scratch(const GemmTile& tile) { return sums_bytes(tile) + scratch_bytes(shape_of(tile)); }

void gemm_tile(const GemmTile& tile, const void* a_at, const void* b_at, void* c, std::byte* scratch) {
  if (tile.dtype == DType::f32)
    return run_deep(tile, static_cast<const float*>(a_at), static_cast<const float*>(b_at), static_cast<float*>(c),
                    scratch);
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
