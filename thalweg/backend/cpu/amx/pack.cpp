#include "thalweg/backend/cpu/amx/pack.h"

#include <algorithm>

#include "thalweg/backend/cpu/amx/float_parts.h"

namespace thalweg::cpu::amx {
namespace {

// 32 numbers of the strip after this one, which is packed when products with this one are done: they come meanwhile.
template <class S>
TW_AMX inline void fetch(const S* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T1);
  if constexpr (sizeof(S) == 4) _mm_prefetch(reinterpret_cast<const char*>(from + 16), _MM_HINT_T1);
}

// Masks of the first `count` lanes, none for less than one.
TW_AMX inline __mmask32 first32(std::int64_t count) { return count >= 32 ? ~0u : count <= 0 ? 0u : (1u << count) - 1; }
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

// Two rows of 32 numbers in turns.
struct Interleaved {
  __m512i low, high;

  TW_AMX Interleaved(__m512i even, __m512i odd) {
    const __m512i first = _mm512_set_epi32(0x002f000f, 0x002e000e, 0x002d000d, 0x002c000c, 0x002b000b, 0x002a000a,
                                           0x00290009, 0x00280008, 0x00270007, 0x00260006, 0x00250005, 0x00240004,
                                           0x00230003, 0x00220002, 0x00210001, 0x00200000);
    low = _mm512_permutex2var_epi16(even, first, odd);
    high = _mm512_permutex2var_epi16(even, _mm512_add_epi16(first, _mm512_set1_epi16(16)), odd);
  }
};

TW_AMX inline void store(const __m512i (&rows)[16], BFloat16* tile) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + 32 * i, rows[i]);
}

TW_AMX inline void transpose_tiles(BFloat16* tile, std::int64_t count) {
  __m512i r[16];
  for (; count > 0; --count, tile += kTileSize) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(tile + 32 * i);
    transpose(r);
    store(r, tile);
  }
}

TW_AMX inline __m512 widened(__m256i small) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(small), 16));
}

// 32 numbers as the parts that are multiplied.
template <class S>
struct Parts;

template <>
struct Parts<BFloat16> {
  static constexpr int count = 1;
  __m512i part[1];

  TW_AMX Parts(const BFloat16* from, __mmask32 mask) : part{_mm512_maskz_loadu_epi16(mask, from)} {}
};

template <>
struct Parts<float> {
  static constexpr int count = kParts;
  __m512i part[kParts];
  __m512i size[2];  // without signs: 16 numbers each

  TW_AMX Parts(const float* from, __mmask32 mask)
      : Parts(_mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask), from),
              _mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask >> 16), from + 16)) {}

  TW_AMX Parts(__m512i low_bits, __m512i high_bits) {
    const FloatParts low(low_bits), high(high_bits);
#pragma GCC unroll 3
    for (int i = 0; i < kParts; ++i) part[i] = upper_halves(low.part[i], high.part[i]);
    size[0] = without_sign(low_bits);
    size[1] = without_sign(high_bits);
  }
};

// The largest numbers of 32 rows.
template <class S>
struct Largest {
  TW_AMX void see_row(std::int64_t, const Parts<S>&) {}
  TW_AMX Range range() const { return {}; }
};

template <>
struct Largest<float> {
  __m512i seen[kStrip] = {};

  TW_AMX void see_row(std::int64_t row, const Parts<float>& parts) {
    seen[row] = _mm512_max_epu32(seen[row], _mm512_max_epu32(parts.size[0], parts.size[1]));
  }
  TW_AMX Range range() const {
    Range range;
    for (const __m512i& row : seen) add_size(_mm512_reduce_max_epu32(row), range);
    return range;
  }
};

}  // namespace

template <class S>
TW_AMX Range pack_rows(const S* from, std::int64_t ld, std::int64_t rows, std::int64_t depth, BFloat16* strip) {
  Largest<S> largest;
  for (std::int64_t p = 0; p < depth; p += kStep, strip += Parts<S>::count * 2 * kTileSize) {
    const __mmask32 mask = first32(depth - p);
    for (std::int64_t i = 0; i < kStrip; ++i) {
      const Parts<S> parts(from + i * ld + p, i < rows ? mask : 0);
      fetch(from + (i + kStrip) * ld + p);
      largest.see_row(i, parts);
#pragma GCC unroll 3
      for (int part = 0; part < Parts<S>::count; ++part)
        _mm512_store_si512(strip + part * 2 * kTileSize + i * kStep, parts.part[part]);
    }
  }
  return largest.range();
}

template <>
TW_AMX Range pack_columns(const BFloat16* from, std::int64_t ld, std::int64_t columns, std::int64_t depth,
                          BFloat16* strip) {
  const __mmask32 mask = first32(columns);
  for (std::int64_t p = 0; p < depth; p += kStep, strip += 2 * kTileSize)
    for (std::int64_t pair = 0; pair < 16; ++pair) {
      const std::int64_t at = p + 2 * pair;
      const Interleaved both(_mm512_maskz_loadu_epi16(at < depth ? mask : 0, from + at * ld),
                             _mm512_maskz_loadu_epi16(at + 1 < depth ? mask : 0, from + (at + 1) * ld));
      _mm512_store_si512(strip + pair * kStep, both.low);
      _mm512_store_si512(strip + pair * kStep + kTileSize, both.high);
    }
  return {};
}

template <>
TW_AMX Range pack_columns(const float* from, std::int64_t ld, std::int64_t columns, std::int64_t depth,
                          BFloat16* strip) {
  const __mmask16 masks[2] = {first16(columns), first16(columns - 16)};
  __m512i largest[2] = {};
  for (std::int64_t p = 0; p < depth; p += kStep, strip += kParts * 2 * kTileSize)
    for (std::int64_t pair = 0; pair < 16; ++pair) {
      const std::int64_t at = p + 2 * pair;
      const bool has_even = at < depth, has_odd = at + 1 < depth;
      fetch(from + at * ld + kStrip);
      fetch(from + (at + 1) * ld + kStrip);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const float* row = from + at * ld + 16 * half;
        const __m512i even = _mm512_maskz_loadu_epi32(has_even ? masks[half] : static_cast<__mmask16>(0), row);
        const __m512i odd = _mm512_maskz_loadu_epi32(has_odd ? masks[half] : static_cast<__mmask16>(0), row + ld);
        largest[half] = _mm512_max_epu32(largest[half], _mm512_max_epu32(without_sign(even), without_sign(odd)));
        const FloatParts upper(even), lower(odd);
#pragma GCC unroll 3
        for (int part = 0; part < kParts; ++part)
          _mm512_store_si512(strip + (2 * part + half) * kTileSize + pair * kStep,
                             in_turns(upper.part[part], lower.part[part]));
      }
    }
  return range_of(largest);
}

namespace {

// Fewer shuffles than three times those of the general form.
TW_AMX Range pack_floats_transposed(const float* from, std::int64_t ld, std::int64_t rows, std::int64_t depth,
                                    BFloat16* strip) {
  Largest<float> largest;
  __m512i r[2][16];
  for (std::int64_t p = 0; p < depth; p += kStep, strip += kParts * 2 * kTileSize)
    for (std::int64_t half = 0; half < 2; ++half) {
      const __mmask16 mask = first16(rows - 16 * half);
      for (std::int64_t i = 0; i < kStep; ++i) {
        r[i / 16][i % 16] =
            _mm512_maskz_loadu_epi32(p + i < depth ? mask : static_cast<__mmask16>(0), from + (p + i) * ld + 16 * half);
        if (half == 0) fetch(from + (p + i) * ld + kStrip);
      }
      transpose(r[0]);
      transpose(r[1]);
      for (std::int64_t i = 0; i < 16; ++i) {
        const Parts<float> parts(r[0][i], r[1][i]);
        largest.see_row(16 * half + i, parts);
#pragma GCC unroll 3
        for (std::int64_t part = 0; part < kParts; ++part)
          _mm512_store_si512(strip + (2 * part + half) * kTileSize + i * kStep, parts.part[part]);
      }
    }
  return largest.range();
}

}  // namespace

// Transposed as pairs of depths, tiles of columns are tiles of rows and the other way round.
template <class S>
TW_AMX Range pack_rows_transposed(const S* from, std::int64_t ld, std::int64_t rows, std::int64_t depth,
                                  BFloat16* strip) {
  if constexpr (std::is_same_v<S, float>) return pack_floats_transposed(from, ld, rows, depth, strip);
  const Range range = pack_columns(from, ld, rows, depth, strip);
  transpose_tiles(strip, (depth + kStep - 1) / kStep * Parts<S>::count * 2);
  return range;
}

template <class S>
TW_AMX Range pack_columns_transposed(const S* from, std::int64_t ld, std::int64_t columns, std::int64_t depth,
                                     BFloat16* strip) {
  const Range range = pack_rows(from, ld, columns, depth, strip);
  transpose_tiles(strip, (depth + kStep - 1) / kStep * Parts<S>::count * 2);
  return range;
}

template Range pack_rows(const BFloat16*, std::int64_t, std::int64_t, std::int64_t, BFloat16*);
template Range pack_rows(const float*, std::int64_t, std::int64_t, std::int64_t, BFloat16*);
template Range pack_rows_transposed(const BFloat16*, std::int64_t, std::int64_t, std::int64_t, BFloat16*);
template Range pack_rows_transposed(const float*, std::int64_t, std::int64_t, std::int64_t, BFloat16*);
template Range pack_columns_transposed(const BFloat16*, std::int64_t, std::int64_t, std::int64_t, BFloat16*);
template Range pack_columns_transposed(const float*, std::int64_t, std::int64_t, std::int64_t, BFloat16*);

TW_AMX void gather_rows(const Rows& rows, std::int64_t depth, BFloat16* strip) {
  for (std::int64_t p = 0; p < depth; p += kStep, strip += 2 * kTileSize) {
    const __mmask32 mask = first32(depth - p);
    for (int i = 0; i < kStrip; ++i) {
      const BFloat16* row = rows.from + rows.index[i] * rows.ld + p;
      _mm512_store_si512(strip + i * kStep, _mm512_maskz_loadu_epi16(rows.inside >> i & 1 ? mask : 0, row));
    }
  }
}

TW_AMX void gather_columns(const Rows& rows, std::int64_t columns, BFloat16* step) {
  const __mmask32 mask = first32(columns);
  const auto row = [&](int i) TW_AMX {
    return _mm512_maskz_loadu_epi16(rows.inside >> i & 1 ? mask : 0, rows.from + rows.index[i] * rows.ld);
  };
  for (int pair = 0; pair < 16; ++pair) {
    const Interleaved both(row(2 * pair), row(2 * pair + 1));
    _mm512_store_si512(step + pair * kStep, both.low);
    _mm512_store_si512(step + kTileSize + pair * kStep, both.high);
  }
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

TW_AMX void unpack_transposed(const float* block, std::int64_t rows, std::int64_t columns, float* to, std::int64_t ld) {
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

TW_AMX void load_block(const float* from, std::int64_t ld, std::int64_t rows, std::int64_t columns, bool transposed,
                       float* block) {
  __m512i r[16];
  for (std::int64_t tile = 0; tile < 4; ++tile) {
    const std::int64_t upper = tile / 2 * 16, left = tile % 2 * 16;
    const std::int64_t row = transposed ? left : upper, column = transposed ? upper : left;
    const __mmask16 mask = first16(columns - column);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      r[i] =
          _mm512_maskz_loadu_epi32(row + i < rows ? mask : static_cast<__mmask16>(0), from + (row + i) * ld + column);
    if (transposed) transpose(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_si512(block + tile * 256 + 16 * i, r[i]);
  }
}

}  // namespace thalweg::cpu::amx
