#pragma once

// One thread's product over tiles: strips of rows, packed one after the other, with columns packed beforehand.
#include <algorithm>

#include "thalweg/backend/cpu/amx/pack.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu::amx {

struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t parts = 1;  // kParts for f32

  std::int64_t column_strips() const { return ceil_div(n, kStrip); }
  std::int64_t step_size() const { return parts * 2 * kTileSize; }
  std::int64_t strip_size() const { return ceil_div(k, kStep) * step_size(); }
  // Depths of a strip of rows at a time, equal shares of all. bf16 stay in the first-level cache (24 KiB); of f32 the
  // parts are read often enough from the second.
  std::int64_t chunk() const {
    const std::int64_t most = parts == 1 ? 384 : 256;
    return round_up(ceil_div(k, ceil_div(k, most)), kStep);
  }
  bool is_chunked() const { return k > chunk(); }
  std::int64_t columns_size() const { return column_strips() * strip_size(); }                  // bf16
  std::int64_t rows_size() const { return chunk() / kStep * step_size(); }                      // bf16
  std::int64_t sums_size() const { return (is_chunked() ? column_strips() : 1) * kBlockSize; }  // f32
};

// Of rows alone, and with columns.
inline std::size_t rows_scratch(const Shape& shape) {
  return static_cast<std::size_t>(shape.rows_size() * 2 + shape.sums_size() * 4);
}
inline std::size_t scratch_bytes(const Shape& shape) {
  return static_cast<std::size_t>(shape.columns_size() * 2) + rows_scratch(shape);
}

// Scratch of one product, each part aligned to 64 bytes.
struct Scratch {
  BFloat16 *columns, *rows;
  float* sums;
  Scratch(const Shape& shape, std::byte* at)
      : Scratch(shape, reinterpret_cast<BFloat16*>(at),
                at + shape.columns_size() * static_cast<std::int64_t>(sizeof(BFloat16))) {}
  // Of columns that are packed.
  Scratch(const Shape& shape, BFloat16* packed, std::byte* at)
      : columns(packed),
        rows(reinterpret_cast<BFloat16*>(at)),
        sums(reinterpret_cast<float*>(rows + shape.rows_size())) {}
};

// Where whole blocks of sums may be left as they are, if anywhere.
struct Sums {
  float* at = nullptr;
  std::int64_t ld = 0;
};

// With columns that are packed: pack_rows(row, p, depth, to) packs rows row … row + 32 at depths p … p + depth;
// store(row, column, block) takes the sums of a block, unless they were left in `sums`. Where the ranges of both do not
// fit, give_up(row, rows) is asked for these rows instead.
template <class PackRows, class Store, class GiveUp>
void multiply_rows(const Shape& shape, const Range& columns_range, const Scratch& scratch, const Sums& sums,
                   PackRows&& pack_rows, Store&& store, GiveUp&& give_up) {
  bool fits = true;
  const auto multiply_strips = shape.parts == 1 ? multiply : multiply_parts;
  const std::int64_t chunk = shape.chunk();
  const Tiles tiles;
  for (std::int64_t row = 0; row < shape.m; row += kStrip) {
    for (std::int64_t p = 0; p < shape.k && fits; p += chunk) {
      const std::int64_t depth = std::min(chunk, shape.k - p);
      fits = fit(pack_rows(row, p, depth, scratch.rows), columns_range);
      for (std::int64_t s = 0; s < shape.column_strips() && fits; ++s) {
        const BFloat16* columns = scratch.columns + s * shape.strip_size() + p / kStep * shape.step_size();
        const bool in_place =
            sums.at != nullptr && !shape.is_chunked() && row + kStrip <= shape.m && (s + 1) * kStrip <= shape.n;
        float* block = scratch.sums + (shape.is_chunked() ? s * kBlockSize : 0);
        multiply_strips(scratch.rows, columns, ceil_div(depth, kStep),
                        in_place ? Block(sums.at + row * sums.ld + s * kStrip, sums.ld) : Block(block), p > 0);
        if (!shape.is_chunked() && !in_place) store(row, s * kStrip, block);
      }
    }
    for (std::int64_t s = 0; s < shape.column_strips() && shape.is_chunked() && fits; ++s)
      store(row, s * kStrip, scratch.sums + s * kBlockSize);
    if (!fits) give_up(row, std::min(kStrip, shape.m - row));
    fits = true;
  }
}

// The same, and pack_columns(to) packs all columns first, one strip of all depths after the other. Where these do not
// fit anything, give_up is asked for all rows.
template <class PackColumns, class PackRows, class Store, class GiveUp>
void product(const Shape& shape, std::byte* at, const Sums& sums, PackColumns&& pack_columns, PackRows&& pack_rows,
             Store&& store, GiveUp&& give_up) {
  const Scratch scratch(shape, at);
  const Range range = pack_columns(scratch.columns);
  if (!range.is_finite()) return give_up(0, shape.m);
  multiply_rows(shape, range, scratch, sums, pack_rows, store, give_up);
}

}  // namespace thalweg::cpu::amx
