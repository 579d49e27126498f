// Products over tiles: of bf16, and of f32 as sums of three bf16 (streamed.h).
#include "thalweg/backend/cpu/amx/gemm.h"

#include <cmath>

#include "thalweg/backend/cpu/amx/product.h"
#include "thalweg/backend/cpu/amx/streamed.h"

namespace thalweg::cpu::amx {
namespace {

constexpr std::int64_t kPackDepth = 4 * kStep;

Shape shape_of(const GemmTile& tile) { return {tile.m, tile.n, std::min(tile.k, kMaxDepth)}; }

template <class Out>
void run(const GemmTile& tile, const BFloat16* a, const BFloat16* b, Out* c, std::byte* scratch) {
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

}  // namespace

bool supported(const GemmTile& tile) { return (tile.dtype == DType::bf16 || tile.dtype == DType::f32) && usable(); }

// Nanoseconds of two cores of Emerald Rapids, by a fit to 378 products: f32 have to earn their packing. What waits is
// packed by both threads unless it is cut between them; what streams hides behind products, the better the more waits.
bool pays(const GemmTile& tile) {
  if (tile.dtype != DType::f32) return true;
  const bool columns = streams_columns(tile), few = (columns ? tile.m : tile.n) <= waiting_entries(tile.k);
  const auto m = static_cast<double>(tile.m), n = static_cast<double>(tile.n), k = static_cast<double>(tile.k);
  const double waiting = (columns ? m : n), streaming = (columns ? n : m);
  const double strips = std::min(8.0, std::ceil(waiting / kStrip));
  const bool is_transposed = columns ? tile.transpose_a || tile.transpose_b : tile.transpose_b;
  const double packs = (is_transposed ? 0.25 : 0.17) * waiting * k * (few ? 1 : 0.5) + 0.21 * streaming * k / strips;
  const double products = 0.0041 * std::ceil(m / kStrip) * kStrip * n * k + 0.12 * m * n * std::ceil(k / 512);
  return 4800 + packs + products < 0.87 * (4100 + 0.0066 * m * n * k + (tile.transpose_b ? 0.15 : 0.07) * n * k);
}

std::size_t gemm_scratch(const GemmTile& tile) {
  if (tile.dtype == DType::f32) return streamed_scratch(tile);
  return sums_bytes(tile) + scratch_bytes(shape_of(tile));
}

namespace {

void small_tile(const GemmTile& tile, const void* a_at, const void* b_at, void* c, std::byte* scratch) {
  const auto *a = static_cast<const BFloat16*>(a_at), *b = static_cast<const BFloat16*>(b_at);
  if (tile.out == DType::f32) return run_deep(tile, a, b, static_cast<float*>(c), scratch);
  if (!needs_sums(tile)) return run(tile, a, b, static_cast<BFloat16*>(c), scratch);
  auto* sums = reinterpret_cast<float*>(scratch);
  GemmTile wide = tile;
  wide.out = DType::f32, wide.ldc = tile.n, wide.accumulate = false;
  run_deep(wide, a, b, sums, scratch + sums_bytes(tile));
  narrow_sums(tile, sums, static_cast<BFloat16*>(c));
}

}  // namespace

void gemm_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch, const OnRegion* done) {
  if (tile.dtype == DType::f32)
    return streamed_tile(tile, static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(c),
                         scratch, done);
  small_tile(tile, a, b, c, scratch);
  if (done) (*done)({0, tile.m, 0, tile.n});
}

}  // namespace thalweg::cpu::amx
