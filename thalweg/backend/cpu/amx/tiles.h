#pragma once

// Matrix tiles of x86 (AMX): eight registers of 16 rows of 64 bytes per thread, multiplied as bf16 into f32 sums.
#include <cstdint>

#include "thalweg/core/dtype.h"

#define TW_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace thalweg::cpu::amx {

inline constexpr std::int64_t kStrip = 32;        // rows or columns of a strip: two tiles
inline constexpr std::int64_t kStep = 32;         // depth of a tile: 32 bf16 a row
inline constexpr std::int64_t kTileSize = 512;    // bf16 of a tile
inline constexpr std::int64_t kBlockSize = 1024;  // f32 sums of a strip of rows with one of columns

// Whether this processor has tiles and the system lets this process use them. Found once.
bool usable();

// Tiles of the calling thread, 16 rows of 64 bytes each, as long as this lives.
class Tiles {
 public:
  Tiles();
  ~Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// Where the sums of a strip of rows with one of columns stand, two by two tiles: in a block of their own,
// [2][2][16][16], or in a matrix.
struct Block {
  float* at;
  std::int64_t row_bytes = 64, right = 256, below = 512;  // from row to row; elements from tile to tile

  Block(float* block) : at(block) {}  // NOLINT(google-explicit-constructor)
  Block(float* matrix, std::int64_t ld) : at(matrix), row_bytes(4 * ld), right(16), below(16 * ld) {}
};

// block (+)= a b. `a` is a strip of rows: [steps][2][16 rows][32 depths]; `b` one of columns: [steps][2][16 pairs of
// depths][16 columns][2]. All aligned to 64 bytes, but for matrices of sums.
void multiply(const BFloat16* a, const BFloat16* b, std::int64_t steps, const Block& block, bool add);

// The same of f32 numbers, each of them the sum of three bf16: strips are [steps][3][2]…, the largest parts first. Of
// nine products of parts the three smallest are left out: together they are below 2^-24 of the whole.
inline constexpr std::int64_t kParts = 3;
void multiply_parts(const BFloat16* a, const BFloat16* b, std::int64_t steps, const Block& block, bool add);

}  // namespace thalweg::cpu::amx
