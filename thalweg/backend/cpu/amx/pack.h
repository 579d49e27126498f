#pragma once

// Matrices into strips of tiles, as `multiply` reads them; what is missing of a tile is filled with zeros.
#include "thalweg/backend/cpu/amx/tiles.h"

namespace thalweg::cpu::amx {

// Numbers are bf16 or, in three parts, f32. Each function says whether all were finite: parts of others do not add up
// to them; of bf16 it does not look.

// A strip of up to 32 rows, depths 0 … depth. `from` is [rows, depth], or [depth, rows] for the transposed form.
template <class S>
TW_AMX bool pack_rows(const S* from, std::int64_t ld, std::int64_t rows, std::int64_t depth, BFloat16* strip);
template <class S>
TW_AMX bool pack_rows_transposed(const S* from, std::int64_t ld, std::int64_t rows, std::int64_t depth,
                                 BFloat16* strip);

// A strip of up to 32 columns. `from` is [depth, columns], or [columns, depth] for the transposed form.
template <class S>
TW_AMX bool pack_columns(const S* from, std::int64_t ld, std::int64_t columns, std::int64_t depth, BFloat16* strip);
template <class S>
TW_AMX bool pack_columns_transposed(const S* from, std::int64_t ld, std::int64_t columns, std::int64_t depth,
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

}  // namespace thalweg::cpu::amx
