// What attention multiplies: numbers one by one, or bf16 in pairs; and the layouts that tiles read them in. Included
// once per target.
#if defined(THALWEG_CPU_KERNELS_ATTENTION_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_ATTENTION_ELEMENTS_INL_H
#undef THALWEG_CPU_KERNELS_ATTENTION_ELEMENTS_INL_H
#else
#define THALWEG_CPU_KERNELS_ATTENTION_ELEMENTS_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "thalweg/backend/cpu/kernels/attention_plan.h"
#include "thalweg/backend/cpu/kernels/lanes-inl.h"
#include "thalweg/backend/cpu/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Two bf16 that are neighbours along the axis of a sum, the first in the lower half. They lie in vectors of floats as
// bits, and one instruction multiplies and sums 16 such pairs in float.
using Pair = std::uint32_t;

// What products of elements are summed in.
template <class E>
using Computed = std::conditional_t<std::is_same_v<E, Pair>, float, E>;

template <class E>
inline constexpr int kNumbers = std::is_same_v<E, Pair> ? 2 : 1;

// Whether products of S may be computed in pairs, on this target …
template <class S>
inline constexpr bool kHasPairs = HWY_TARGET == HWY_AVX3&& std::is_same_v<S, BFloat16>;

// … and on this processor: Highway has no target with AVX512-BF16. Pairs do not straddle rows.
inline bool fits_pairs(const AttentionShape& s) {
#if HWY_ARCH_X86
  return s.depth % 2 == 0 && s.value_depth % 2 == 0 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// Operands may be stored as two BFloat16.
template <class E>
HWY_INLINE E element(const E* from) {
  E value;
  std::memcpy(&value, from, sizeof(E));
  return value;
}

template <class E>
HWY_INLINE auto load_elements(const E* from) {
  return hn::BitCast(hn::ScalableTag<Computed<E>>(), hn::LoadU(hn::ScalableTag<E>(), from));
}

template <class E>
HWY_INLINE auto broadcast(const E* from) {
  return hn::BitCast(hn::ScalableTag<Computed<E>>(), hn::Set(hn::ScalableTag<E>(), element(from)));
}

// sum + a * b, for pairs sum + a.first * b.first + a.second * b.second
template <class E, class V>
HWY_INLINE V multiply_add_elements(V a, V b, V sum) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<E, Pair>) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
#endif
  return hn::MulAdd(a, b, sum);
}

#if HWY_TARGET == HWY_AVX3
// Rounded to bf16: the numbers of `low`, then those of `high`.
template <class V>
HWY_INLINE __m512i round_in_order(V low, V high) {
  __m512i out;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(out) : "v"(low.raw), "v"(high.raw));
  return out;
}

HWY_INLINE void store_pairs(__m512i pairs, Pair* to) { _mm512_storeu_si512(to, pairs); }

// The lower 16 numbers and the upper ones by turns.
HWY_INLINE __m512i interleave_halves(__m512i halves) {
  alignas(64) static constexpr std::uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), halves);
}

// Numbers of two vectors lane by lane.
template <class V>
HWY_INLINE void store_elements(const V (&numbers)[2], Pair* to) {
  store_pairs(interleave_halves(round_in_order(numbers[0], numbers[1])), to);
}

// x [rows, width] -> out [rows / 2, padded width]: numbers of neighbouring rows as pairs, 0 for what is missing.
inline void pack_row_pairs(const BFloat16* x, std::int64_t rows, std::int64_t width, Pair* out) {
  for (std::int64_t row = 0; row < rows; row += 2, out += padded(width))
    for (std::int64_t at = 0; at < width; at += 16) {
      const auto some = static_cast<__mmask16>((1u << std::min<std::int64_t>(width - at, 16)) - 1);
      const BFloat16* from = x + row * width + at;
      const __m256i first = _mm256_maskz_loadu_epi16(some, from);
      const __m256i second = _mm256_maskz_loadu_epi16(row + 1 < rows ? some : __mmask16{0}, from + width);
      store_pairs(interleave_halves(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1)), out + at);
    }
}
#endif

#if HWY_TARGET != HWY_SCALAR
// Four neighbours of every fourth row, one block of the vector after the other.
template <class D, class E>
HWY_INLINE hn::Vec<D> load_blocks(D d, const E* from, std::int64_t ld) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    const E* upper = from + static_cast<std::int64_t>(hn::MaxLanes(half)) * ld;
    return hn::Combine(d, load_blocks(half, upper, ld), load_blocks(half, from, ld));
  }
}

// out[c][r] = in[r][c] for as many rows as a vector has lanes, and 4 columns
template <class D, class E>
HWY_INLINE void transpose_columns(D d, const E* in, std::int64_t ld, E* out, std::int64_t out_ld) {
  const auto r0 = load_blocks(d, in, ld), r1 = load_blocks(d, in + ld, ld);
  const auto r2 = load_blocks(d, in + 2 * ld, ld), r3 = load_blocks(d, in + 3 * ld, ld);
  const auto low02 = hn::InterleaveLower(d, r0, r2), low13 = hn::InterleaveLower(d, r1, r3);
  const auto high02 = hn::InterleaveUpper(d, r0, r2), high13 = hn::InterleaveUpper(d, r1, r3);
  hn::StoreU(hn::InterleaveLower(d, low02, low13), d, out);
  hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, out + out_ld);
  hn::StoreU(hn::InterleaveLower(d, high02, high13), d, out + 2 * out_ld);
  hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, out + 3 * out_ld);
}
#endif

template <class V, class T>
HWY_INLINE void store_elements(const V (&number)[1], T* to) {
  hn::StoreU(number[0], hn::ScalableTag<T>(), to);
}

// x [rows, width] -> out [slabs][width][slab]; missing rows of the last slab become 0.
template <std::int64_t kSlab, class E>
void pack_transposed(const E* x, std::int64_t rows, std::int64_t width, E* out) {
  constexpr hn::ScalableTag<E> d;
  constexpr auto kStep = static_cast<std::int64_t>(hn::MaxLanes(d));
  const std::int64_t padded_rows = divide_up(rows, kSlab) * kSlab;
  for (std::int64_t row = 0; row < padded_rows; row += kStep) {
    E* to = out + row / kSlab * width * kSlab + row % kSlab;
    std::int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(E) == 4)
      for (; row + kStep <= rows && column + 4 <= width; column += 4)
        transpose_columns(d, x + row * width + column, width, to + column * kSlab, kSlab);
#endif
    for (; column < width; ++column)
      for (std::int64_t r = 0; r < kStep; ++r)
        to[column * kSlab + r] = row + r < rows ? element(x + (row + r) * width + column) : E(0);
  }
}

// x [rows, width] as elements along the rows: itself, or a copy in the type that is computed in.
template <class E, class S>
const E* element_rows(const S* x, [[maybe_unused]] std::int64_t rows, [[maybe_unused]] std::int64_t width,
                      [[maybe_unused]] E* copy) {
  if constexpr (std::is_same_v<S, E>) {
    return x;
  } else if constexpr (std::is_same_v<E, Pair>) {
    return reinterpret_cast<const E*>(x);
  } else {
    for_each_chunk<E>(rows * width, [&](auto chunk) HWY_ATTR { chunk.store(chunk.load(x), copy); });
    return copy;
  }
}

// Rows that tiles may read in whole vectors: x [rows, width] itself, or a copy in `copy` with padded rows.
template <class T>
const T* padded_rows(const T* x, std::int64_t rows, std::int64_t width, T* copy) {
  if (!needs_padding(width)) return x;
  for (std::int64_t row = 0; row < rows; ++row) {
    T* end = std::copy_n(x + row * width, width, copy + row * padded(width));
    std::fill(end, copy + (row + 1) * padded(width), T(0));
  }
  return copy;
}

// x [rows, width] as elements across the rows, each row of them padded: `along` (see element_rows) itself or a copy, or
// pairs of neighbouring rows.
template <class E, class S>
const E* elements_across([[maybe_unused]] const S* x, const E* along, std::int64_t rows, std::int64_t width,
                         [[maybe_unused]] E* pairs, [[maybe_unused]] E* copy) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<E, Pair>) {
    pack_row_pairs(x, rows, width, pairs);
    return pairs;
  }
#endif
  return padded_rows(along, rows, width, copy);
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
