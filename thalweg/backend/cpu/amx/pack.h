#pragma once

// Matrices into strips of tiles, as `multiply` reads them; what is missing of a tile is filled with zeros.
#include <algorithm>
#include <limits>

#include "thalweg/backend/cpu/amx/tiles.h"

namespace thalweg::cpu::amx {

// How large the numbers of rows or columns are: the largest, and the least of what each of them has as its largest,
// those of zeros aside. Of bf16 nobody looks.
struct Range {
  float least = std::numeric_limits<float>::max(), most = 0;

  void add(float largest) {
    if (largest > 0) least = std::min(least, largest);
    most = std::max(most, largest);
  }
  void add(const Range& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
  bool is_finite() const { return most < 0x1.fep127f; }  // and does not round to infinity
};

// Tiles take numbers below 2^-126 for 0, also where they are parts of larger ones, and parts may be rounded up:
// products of f32 in parts are to stay away from both ends.
inline bool fit(const Range& a, const Range& b) {
  constexpr double low = 0x1p-100, high = 0x1p118;
  if (!a.is_finite() || !b.is_finite()) return false;
  const double least = static_cast<double>(a.least) * b.least, most = static_cast<double>(a.most) * b.most;
  return most < high && std::min({least, static_cast<double>(a.least), static_cast<double>(b.least)}) > low;
}

// Numbers are bf16 or, in three parts, f32.

// A strip of up to 32 rows, depths 0 … depth. `from` is [rows, depth], or [depth, rows] for the transposed form.
template <class S>
TW_AMX Range pack_rows(const S* from, std::int64_t ld, std::int64_t rows, std::int64_t depth, BFloat16* strip);
template <class S>
TW_AMX Range pack_rows_transposed(const S* from, std::int64_t ld, std::int64_t rows, std::int64_t depth,
                                  BFloat16* strip);

// A strip of up to 32 columns. `from` is [depth, columns], or [columns, depth] for the transposed form.
template <class S>
TW_AMX Range pack_columns(const S* from, std::int64_t ld, std::int64_t columns, std::int64_t depth, BFloat16* strip);
template <class S>
TW_AMX Range pack_columns_transposed(const S* from, std::int64_t ld, std::int64_t columns, std::int64_t depth,
                                     BFloat16* strip);

// 32 rows of a matrix that lie anywhere: row i at from + index[i] * ld, zeros where its bit in `inside` is not set.
struct Rows {
  const BFloat16* from;
  std::int64_t ld;
  const std::int64_t* index;
  std::uint32_t inside;
};

// As pack_rows, of rows that lie anywhere.
void gather_rows(const Rows& rows, std::int64_t depth, BFloat16* strip);
// As one step of pack_columns: rows are depths.
void gather_columns(const Rows& rows, std::int64_t columns, BFloat16* step);

// The sums of a block to rows x columns of a matrix with `ld`.
void unpack(const float* block, std::int64_t rows, std::int64_t columns, bool add, float* to, std::int64_t ld);
void unpack(const float* block, std::int64_t rows, std::int64_t columns, bool add, BFloat16* to, std::int64_t ld);
// Row i to index[i] * ld.
void scatter(const float* block, std::int64_t rows, std::int64_t columns, BFloat16* to, std::int64_t ld,
             const std::int64_t* index);
// Rows of the block become columns.
void unpack_transposed(const float* block, std::int64_t rows, std::int64_t columns, float* to, std::int64_t ld);
// The reverse of both: rows x columns of a matrix to sums that are added to.
void load_block(const float* from, std::int64_t ld, std::int64_t rows, std::int64_t columns, bool transposed,
                float* block);

}  // namespace thalweg::cpu::amx
