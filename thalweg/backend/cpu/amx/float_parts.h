#pragma once

// f32 numbers as sums of three bf16, and how large they are.

// g++ 12 takes the undefined operands inside of its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <bit>

#include "thalweg/backend/cpu/amx/pack.h"
#include "thalweg/backend/cpu/amx/tile_steps.h"

namespace thalweg::cpu::amx {

// 16 floats as floats of 8 bits: each part is the rest rounded, so that what is left after three is nothing.
struct FloatParts {
  __m512i part[kParts];

  TW_INLINE_AMX explicit FloatParts(__m512i bits) {
    part[0] = rounded(bits);
    const __m512 rest = _mm512_sub_ps(_mm512_castsi512_ps(bits), _mm512_castsi512_ps(part[0]));
    part[1] = rounded(_mm512_castps_si512(rest));
    part[2] = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(part[1])));
  }

 private:
  TW_INLINE_AMX static __m512i rounded(__m512i bits) {
    return _mm512_and_si512(_mm512_add_epi32(bits, _mm512_set1_epi32(0x8000)), _mm512_set1_epi32(-0x10000));
  }
};

TW_TILES __m512i without_sign(__m512i bits) { return _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)); }

// The upper halves of floats of two rows in turns are what tiles want of columns: no shuffles. Parts below 2^-126 have
// bits in the lower halves too.
TW_TILES __m512i in_turns(__m512i even, __m512i odd) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(even, 16), odd);
}

// The upper halves of 32 floats one after the other.
TW_TILES __m512i upper_halves(__m512i low, __m512i high) {
  const __m512i upper =
      _mm512_set_epi32(0x003f003d, 0x003b0039, 0x00370035, 0x00330031, 0x002f002d, 0x002b0029, 0x00270025, 0x00230021,
                       0x001f001d, 0x001b0019, 0x00170015, 0x00130011, 0x000f000d, 0x000b0009, 0x00070005, 0x00030001);
  return _mm512_permutex2var_epi16(low, upper, high);
}

// Bits of floats without a sign are in the order of the numbers, infinity and NaN above all.
TW_AMX inline void add_size(std::uint32_t size, Range& range) {
  constexpr std::uint32_t infinity = 0x7f800000;
  range.add(std::bit_cast<float>(std::min(size, infinity)));
}

// Of the largest numbers of 32 columns.
TW_AMX inline Range range_of(const __m512i (&largest)[2]) {
  Range range;
  for (const __m512i& half : largest) {
    alignas(64) std::uint32_t sizes[16];
    _mm512_store_si512(sizes, half);
    for (const std::uint32_t size : sizes) add_size(size, range);
  }
  return range;
}

}  // namespace thalweg::cpu::amx
