#pragma once

// Strips of f32 numbers, packed a little at a time between the products of another strip: tiles multiply by themselves
// for 64 cycles at a time, and vectors are free meanwhile.
#include "thalweg/backend/cpu/amx/float_parts.h"
#include "thalweg/backend/cpu/amx/tile_steps.h"

namespace thalweg::cpu::amx {

inline constexpr std::int64_t kUnits = 16;  // of a step of a strip

// Whole steps of a strip of 32 columns, from [depth, columns]. A unit is two depths.
class ColumnStream {
 public:
  ColumnStream(const float* from, std::int64_t ld, BFloat16* to) : from_(from), ld_(ld), to_(to) {}

  TW_INLINE_AMX void pack(std::int64_t step, std::int64_t unit) {
    const float* row = from_ + (step * kStep + 2 * unit) * ld_;
    BFloat16* strip = to_ + step * kPartsSize + unit * kStep;
    fetch(row + 2 * kStep * ld_);
    fetch(row + (2 * kStep + 1) * ld_);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m512i even = _mm512_loadu_si512(row + 16 * half), odd = _mm512_loadu_si512(row + ld_ + 16 * half);
      largest_[half] = _mm512_max_epu32(largest_[half], _mm512_max_epu32(without_sign(even), without_sign(odd)));
      const FloatParts upper(even), lower(odd);
#pragma GCC unroll 3
      for (int part = 0; part < kParts; ++part)
        _mm512_store_si512(strip + (2 * part + half) * kTileSize, in_turns(upper.part[part], lower.part[part]));
    }
  }

  TW_AMX Range range() const { return range_of(largest_); }

 private:
  TW_INLINE_AMX static void fetch(const float* at) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(at + 16), _MM_HINT_T1);
  }

  const float* from_;
  std::int64_t ld_;
  BFloat16* to_;
  __m512i largest_[2] = {};
};

// The same of 32 rows, from [rows, depth]. A unit is two rows.
class RowStream {
 public:
  RowStream(const float* from, std::int64_t ld, BFloat16* to) : from_(from), ld_(ld), to_(to) {}

  TW_INLINE_AMX void pack(std::int64_t step, std::int64_t unit) {
    BFloat16* strip = to_ + step * kPartsSize;
#pragma GCC unroll 2
    for (std::int64_t i = 2 * unit; i < 2 * unit + 2; ++i) {
      const float* row = from_ + i * ld_ + step * kStep;
      const __m512i low = _mm512_loadu_si512(row), high = _mm512_loadu_si512(row + 16);
      largest_[i] = _mm512_max_epu32(largest_[i], _mm512_max_epu32(without_sign(low), without_sign(high)));
      const FloatParts first(low), second(high);
#pragma GCC unroll 3
      for (int part = 0; part < kParts; ++part)
        _mm512_store_si512(strip + part * 2 * kTileSize + i * kStep, upper_halves(first.part[part], second.part[part]));
    }
  }

  TW_AMX Range range() const {
    Range range;
    for (const __m512i& row : largest_) add_size(_mm512_reduce_max_epu32(row), range);
    return range;
  }

 private:
  const float* from_;
  std::int64_t ld_;
  BFloat16* to_;
  __m512i largest_[kStrip] = {};
};

}  // namespace thalweg::cpu::amx
