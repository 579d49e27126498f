#pragma once

// One thread's product over tiles: strips of rows, packed one after the other, with columns packed beforehand.
#include <algorithm>

#include "thalweg/backend/cpu/amx/pack.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu::amx {

inline constexpr std::int64_t kChunk = 384;  // depths of a strip of rows at a time, at most: 24 KiB, in the first-level cache

struct Shape {
  std::int64_t m = 0, n = 0, k = 0;

  std::int64_t column_strips() const { return ceil_div(n, kStrip); }
  std::int64_t steps() const { return ceil_div(k, kStep); }
  // Depths are taken in equal parts.
  std::int64_t chunk() const { return round_up(ceil_div(k, ceil_div(k, kChunk)), kStep); }
  std::int64_t columns_size() const { return column_strips() * steps() * 2 * kTileSize; }   // bf16
  std::int64_t rows_size() const { return chunk() * kStrip; }      // bf16
  std::int64_t sums_size() const { return (k > chunk() ? column_strips() : 1) * kBlockSize; }  // f32
};

inline std::size_t scratch_bytes(const Shape& shape) {
  return static_cast<std::size_t>((shape.columns_size() + shape.rows_size()) * 2 + shape.sums_size() * 4);
}

// Scratch of one product, each part aligned to 64 bytes.
struct Scratch {
  BFloat16 *columns, *rows;
  float* sums;
  Scratch(const Shape& shape, std::byte* at)
      : columns(reinterpret_cast<BFloat16*>(at)),
        rows(columns + shape.columns_size()),
        sums(reinterpret_cast<float*>(rows + shape.rows_size())) {}
};

// pack_columns(column, to) packs all depths of columns column … column + 32; pack_rows(row, p, depth, to) rows row … row + 32 at
// depths p … p + depth; store(row, column, block) takes the sums of a block.
template <class PackColumns, class PackRows, class Store>
void product(const Shape& shape, std::byte* at, PackColumns&& pack_columns, PackRows&& pack_rows, Store&& store) {
  const Scratch scratch(shape, at);
  const std::int64_t strip_size = shape.steps() * 2 * kTileSize;
  for (std::int64_t s = 0; s < shape.column_strips(); ++s) pack_columns(s * kStrip, scratch.columns + s * strip_size);
  const std::int64_t chunk = shape.chunk();
  const Tiles tiles;
  for (std::int64_t row = 0; row < shape.m; row += kStrip)
    for (std::int64_t p = 0; p < shape.k; p += chunk) {
      const std::int64_t depth = std::min(chunk, shape.k - p);
      pack_rows(row, p, depth, scratch.rows);
      for (std::int64_t s = 0; s < shape.column_strips(); ++s) {
        float* block = scratch.sums + (shape.k > chunk ? s * kBlockSize : 0);
        multiply(scratch.rows, scratch.columns + s * strip_size + p * kStrip, ceil_div(depth, kStep), block, p > 0);
        if (p + depth == shape.k) store(row, s * kStrip, block);
      }
    }
}

}  // namespace thalweg::cpu::amx
