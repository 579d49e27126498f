#include "thalweg/backend/cpu/amx/pack.h"

// g++ 12 takes the undefined operands inside of its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>

namespace thalweg::cpu::amx {
namespace {

// Masks of the first `count` lanes, none for less than one.
TW_AMX inline __mmask32 first32(std::int64_t count) {
  return count >= 32 ? ~0u : count <= 0 ? 0u : (1u << count) - 1;
}
TW_AMX inline __mmask16 first16(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1);
}

// Rows become columns in a square of 16 x 16 words of 32 bits.
TW_AMX inline void transpose(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 8)
#pragma GCC unroll 16
    for (int j = 0; j < 4; ++j) {
      t[i + j] = _mm512_shuffle_i32x4(r[i + j], r[i + 4 + j], 0x88);
      t[i + 4 + j] = _mm512_shuffle_i32x4(r[i + j], r[i + 4 + j], 0xdd);
    }
#pragma GCC unroll 16
  for (int j = 0; j < 8; ++j) {
    r[j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0x88);
    r[8 + j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0xdd);
  }
}

// Pairs of rows, columns in turns: low[pair] is [16 columns][2], high[pair] the 16 columns after them. row(i, mask)
// loads row i.
template <class Row>
TW_AMX inline __attribute__((always_inline)) void interleave(Row&& row, __m512i (&low)[16], __m512i (&high)[16]) {
  const __m512i first = _mm512_set_epi32(0x002f000f, 0x002e000e, 0x002d000d, 0x002c000c, 0x002b000b, 0x002a000a,
                                         0x00290009, 0x00280008, 0x00270007, 0x00260006, 0x00250005, 0x00240004,
                                         0x00230003, 0x00220002, 0x00210001, 0x00200000);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
#pragma GCC unroll 16
  for (int pair = 0; pair < 16; ++pair) {
    const __m512i even = row(2 * pair), odd = row(2 * pair + 1);
    low[pair] = _mm512_permutex2var_epi16(even, first, odd);
    high[pair] = _mm512_permutex2var_epi16(even, second, odd);
  }
}

// 32 x 32 numbers at `from`, of which `rows` x `columns` exist.
TW_AMX inline void interleave(const BFloat16* from, std::int64_t ld, std::int64_t rows, std::int64_t columns,
                              __m512i (&low)[16], __m512i (&high)[16]) {
  const __mmask32 mask = first32(columns);
  interleave([&](int i) TW_AMX { return _mm512_maskz_loadu_epi16(i < rows ? mask : 0, from + i * ld); }, low, high);
}

TW_AMX inline void store(const __m512i (&rows)[16], BFloat16* tile) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + 32 * i, rows[i]);
}

TW_AMX inline void load(const BFloat16* from, std::int64_t ld, std::int64_t rows, __mmask32 mask, __m512i (&to)[16]) {
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < 16; ++i) to[i] = _mm512_maskz_loadu_epi16(i < rows ? mask : 0, from + i * ld);
}

TW_AMX inline __m512 widened(__m256i small) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(small), 16));
}

}  // namespace

TW_AMX void pack_rows(const BFloat16* from, std::int64_t ld, std::int64_t rows, std::int64_t depth, BFloat16* strip) {
  __m512i r[16];
  for (std::int64_t p = 0; p < depth; p += kStep)
    for (std::int64_t half = 0; half < 2; ++half, strip += kTileSize) {
      load(from + half * 16 * ld + p, ld, rows - half * 16, first32(depth - p), r);
      store(r, strip);
    }
}

TW_AMX void pack_columns_transposed(const BFloat16* from, std::int64_t ld, std::int64_t columns, std::int64_t depth,
                                    BFloat16* strip) {
  __m512i r[16];
  for (std::int64_t p = 0; p < depth; p += kStep)
    for (std::int64_t half = 0; half < 2; ++half, strip += kTileSize) {
      load(from + half * 16 * ld + p, ld, columns - half * 16, first32(depth - p), r);
      transpose(r);
      store(r, strip);
    }
}

TW_AMX void pack_columns(const BFloat16* from, std::int64_t ld, std::int64_t columns, std::int64_t depth,
                         BFloat16* strip) {
  __m512i low[16], high[16];
  for (std::int64_t p = 0; p < depth; p += kStep, strip += 2 * kTileSize) {
    interleave(from + p * ld, ld, depth - p, columns, low, high);
    store(low, strip);
    store(high, strip + kTileSize);
  }
}

TW_AMX void pack_rows_transposed(const BFloat16* from, std::int64_t ld, std::int64_t rows, std::int64_t depth,
                                 BFloat16* strip) {
  __m512i low[16], high[16];
  for (std::int64_t p = 0; p < depth; p += kStep, strip += 2 * kTileSize) {
    interleave(from + p * ld, ld, depth - p, rows, low, high);
    transpose(low);
    store(low, strip);
    transpose(high);
    store(high, strip + kTileSize);
  }
}

TW_AMX void gather_rows(const Rows& rows, std::int64_t depth, BFloat16* strip) {
  __m512i r[16];
  for (std::int64_t p = 0; p < depth; p += kStep)
    for (int half = 0; half < 2; ++half, strip += kTileSize) {
      const __mmask32 mask = first32(depth - p);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        const int at = 16 * half + i;
        r[i] = _mm512_maskz_loadu_epi16(rows.inside >> at & 1 ? mask : 0, rows.from + rows.index[at] * rows.ld + p);
      }
      store(r, strip);
    }
}

TW_AMX void gather_columns(const Rows& rows, std::int64_t columns, BFloat16* step) {
  __m512i low[16], high[16];
  const __mmask32 mask = first32(columns);
  const auto row = [&](int i) TW_AMX {
    return _mm512_maskz_loadu_epi16(rows.inside >> i & 1 ? mask : 0, rows.from + rows.index[i] * rows.ld);
  };
  interleave(row, low, high);
  store(low, step);
  store(high, step + kTileSize);
}

TW_AMX void unpack(const float* block, std::int64_t rows, std::int64_t columns, bool add, float* to, std::int64_t ld) {
  const __mmask16 masks[2] = {first16(columns), first16(columns - 16)};
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t half = 0; half < 2; ++half) {
      float* out = to + i * ld + 16 * half;
      __m512 sum = _mm512_load_ps(block + i / 16 * 512 + half * 256 + i % 16 * 16);
      if (add) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(masks[half], out), sum);
      _mm512_mask_storeu_ps(out, masks[half], sum);
    }
}

TW_AMX void unpack(const float* block, std::int64_t rows, std::int64_t columns, bool add, BFloat16* to,
                   std::int64_t ld) {
  const __mmask32 mask = first32(columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* from = block + i / 16 * 512 + i % 16 * 16;
    __m512 low = _mm512_load_ps(from), high = _mm512_load_ps(from + 256);
    BFloat16* out = to + i * ld;
    if (add) {
      const __m512i before = _mm512_maskz_loadu_epi16(mask, out);
      low = _mm512_add_ps(widened(_mm512_castsi512_si256(before)), low);
      high = _mm512_add_ps(widened(_mm512_extracti64x4_epi64(before, 1)), high);
    }
    _mm512_mask_storeu_epi16(out, mask, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
}

TW_AMX void scatter(const float* block, std::int64_t rows, std::int64_t columns, BFloat16* to, std::int64_t ld,
                    const std::int64_t* index) {
  const __mmask32 mask = first32(columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* from = block + i / 16 * 512 + i % 16 * 16;
    const __m512bh row = _mm512_cvtne2ps_pbh(_mm512_load_ps(from + 256), _mm512_load_ps(from));
    _mm512_mask_storeu_epi16(to + index[i] * ld, mask, reinterpret_cast<__m512i>(row));
  }
}

TW_AMX void unpack_transposed(const float* block, std::int64_t rows, std::int64_t columns, float* to,
                              std::int64_t ld) {
  __m512i r[16];
  for (std::int64_t tile = 0; tile < 4; ++tile) {
    const std::int64_t row = tile / 2 * 16, column = tile % 2 * 16;
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(block + tile * 256 + 16 * i);
    transpose(r);
    const __mmask16 mask = first16(rows - row);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      if (column + i < columns) _mm512_mask_storeu_epi32(to + (column + i) * ld + row, mask, r[i]);
  }
}

}  // namespace thalweg::cpu::amx
