#include "thalweg/backend/cpu/amx/pixels.h"

#include <immintrin.h>

namespace thalweg::cpu::amx {

void PixelStrip::set(const Grid& grid, std::int64_t first, std::int64_t count) {
  std::int64_t image = first / grid.pixels(), rest = first % grid.pixels();
  Triple at{rest / (grid.count[1] * grid.count[2]), rest / grid.count[2] % grid.count[1], rest % grid.count[2]};
  for (std::int64_t i = 0; i < kStrip; ++i) {
    constexpr std::int32_t outside = INT32_MIN / 2;  // no tap reaches back from there
    Triple in;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      in[axis] = at[axis] * grid.step[axis] + grid.shift[axis];
      place[axis][i] = i < count ? static_cast<std::int32_t>(in[axis]) : outside;
    }
    index[i] = image * grid.size[0] * grid.size[1] * grid.size[2] + grid.moved(in);
    if (++at[2] < grid.count[2]) continue;
    at[2] = 0;
    if (++at[1] < grid.count[1]) continue;
    at[1] = 0;
    if (++at[0] < grid.count[0]) continue;
    at[0] = 0, ++image;
  }
}

TW_AMX std::uint32_t PixelStrip::inside(const Grid& grid, const Triple& tap) const {
  __mmask16 low = 0xffff, high = 0xffff;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const __m512i by = _mm512_set1_epi32(static_cast<int>(tap[axis]));
    const __m512i size = _mm512_set1_epi32(static_cast<int>(grid.size[axis]));
    const auto* at = place[axis];  // negative places are large ones without a sign
    low = _mm512_mask_cmplt_epu32_mask(low, _mm512_add_epi32(_mm512_load_si512(at), by), size);
    high = _mm512_mask_cmplt_epu32_mask(high, _mm512_add_epi32(_mm512_load_si512(at + 16), by), size);
  }
  return static_cast<std::uint32_t>(high) << 16 | low;
}

void Stretches::set(const PixelStrip& strip) {
  count = 0;
  for (std::int64_t i = 0, first = 0; i < kStrip; ++i) {
    if (i + 1 < kStrip && strip.index[i + 1] == strip.index[i] + 1) continue;
    start[count] = strip.index[first] - first;
    pixels[count++] = (~0u >> (31 - i)) & (~0u << first);
    first = i + 1;
  }
}

TW_AMX void Stretches::load(const BFloat16* from, std::int64_t by, std::uint32_t inside, BFloat16* to) const {
  __m512i values = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < count; ++i)
    values = _mm512_mask_loadu_epi16(values, pixels[i] & inside, from + start[i] + by);
  _mm512_storeu_si512(to, values);
}

}  // namespace thalweg::cpu::amx
