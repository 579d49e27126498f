// Register tiles of attention: the products, and the layouts they read. Included once per target.
#if defined(THALWEG_CPU_KERNELS_ATTENTION_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_ATTENTION_TILES_INL_H
#undef THALWEG_CPU_KERNELS_ATTENTION_TILES_INL_H
#else
#define THALWEG_CPU_KERNELS_ATTENTION_TILES_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "thalweg/backend/cpu/kernels/attention_plan.h"
#include "thalweg/backend/cpu/kernels/lanes-inl.h"
#include "thalweg/backend/cpu/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A slab is as many columns of scores as a tile is wide. A score tile is kRows x kVectors vectors, a tile of an output
// (o, dq, dk, dv) kOutRows x up to kOutVectors; both fill the registers: 32 with AVX-512, else 16.
template <class T>
struct TileShape {
  static constexpr hn::ScalableTag<T> d{};
  using V = hn::Vec<hn::ScalableTag<T>>;
  static constexpr int kWidth = static_cast<int>(hn::MaxLanes(hn::ScalableTag<T>()));
  static constexpr int kVectors = kWidth > 1 ? 2 : 4;
  static constexpr int kSlab = kVectors * kWidth;
  static constexpr int kRows = HWY_CAP_GE512 ? 8 : 4;
  static constexpr int kOutRows = 4, kOutVectors = HWY_CAP_GE512 ? 4 : 3;
  static_assert(kLargestSlab % kSlab == 0 && kSlab % kOutRows == 0 && kRows % kOutRows == 0 &&
                kLargestSlab % kRows == 0);
};

template <class T>
using VecOf = typename TileShape<T>::V;

#define THALWEG_TILE(r, rows, v, vectors) \
  HWY_UNROLL(8) for (int r = 0; r < rows; ++r) HWY_UNROLL(8) for (int v = 0; v < vectors; ++v)

// The scores (or their gradients) of kRows rows against one slab of columns.
template <class T>
using ScoreTile = VecOf<T>[TileShape<T>::kRows][TileShape<T>::kVectors];

template <class T>
HWY_INLINE void load_tile(ScoreTile<T>& tile, const T* from) {
  using S = TileShape<T>;
  THALWEG_TILE(r, S::kRows, v, S::kVectors) tile[r][v] = hn::LoadU(S::d, from + r * S::kSlab + v * S::kWidth);
}

template <class T>
HWY_INLINE void store_tile(const ScoreTile<T>& tile, T* to) {
  using S = TileShape<T>;
  THALWEG_TILE(r, S::kRows, v, S::kVectors) hn::StoreU(tile[r][v], S::d, to + r * S::kSlab + v * S::kWidth);
}

// Rows of a matrix, `stride` elements from one to the next.
template <class T>
struct Rows {
  const T* first;
  std::int64_t stride;

  HWY_INLINE const T* at(std::int64_t row) const { return first + row * stride; }
  Rows from(std::int64_t row) const { return {at(row), stride}; }
};

// tile = A B: kRows rows of a [count, depth] from `row` on (the last row stands in for missing ones), b [depth][slab].
// Only vectors kBegin … kEnd of the slab are computed, the others are 0. meanwhile(0 … kWork - 1) is called between the
// steps: its additions, permutations and stores go to units that multiplying leaves idle.
template <int kBegin, int kEnd, int kWork = 0, class T, class Meanwhile = void (*)(int)>
HWY_INLINE void multiply_rows(ScoreTile<T>& tile, const Rows<T>& a, std::int64_t row, std::int64_t count,
                              std::int64_t depth, const T* HWY_RESTRICT b,
                              [[maybe_unused]] Meanwhile meanwhile = nullptr) {
  using S = TileShape<T>;
  const T* rows[S::kRows];
  HWY_UNROLL(8)
  for (int r = 0; r < S::kRows; ++r) rows[r] = a.at(std::min(row + r, count - 1));
  THALWEG_TILE(r, S::kRows, v, S::kVectors) tile[r][v] = hn::Zero(S::d);
  const auto step = [&](std::int64_t i) THALWEG_INLINE_LAMBDA {
    VecOf<T> column[S::kVectors];
    HWY_UNROLL(8)
    for (int v = kBegin; v < kEnd; ++v) column[v] = hn::LoadU(S::d, b + i * S::kSlab + v * S::kWidth);
    HWY_UNROLL(8)
    for (int r = 0; r < S::kRows; ++r) {
      const VecOf<T> x = hn::Set(S::d, rows[r][i]);
      HWY_UNROLL(8)
      for (int v = kBegin; v < kEnd; ++v) tile[r][v] = hn::MulAdd(x, column[v], tile[r][v]);
    }
  };
  std::int64_t i = 0;
  if constexpr (kWork > 0) {
    int work = 0;
    // 16 registers would not hold both.
    for (; HWY_CAP_GE512 && work < kWork && i + 2 <= depth; ++work, i += 2) {
      step(i);
      meanwhile(work);
      step(i + 1);
    }
    for (; work < kWork; ++work) meanwhile(work);
  }
  for (; i < depth; ++i) step(i);
}

// Asks for the lines of x [n], which the block after this one reads.
template <class T>
HWY_INLINE void prefetch(const T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 64 / static_cast<std::int64_t>(sizeof(T))) __builtin_prefetch(x + i);
}

#if HWY_TARGET == HWY_AVX3
// The bits of 2^(i / 32), less i * 2^18.
alignas(64) inline constexpr std::uint32_t kPowers[32] = {
    0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a, 0x3f79c3d3, 0x3f78f4f0,
    0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043, 0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6,
    0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be, 0x3f76248c, 0x3f76a81e,
    0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907, 0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3};
#endif

// 2^x for x <= 0, exactly 0 for -infinity; NaN stays. Results below the smallest normal number may be 0. Attention
// saves the second multiplication of exp's reduction and its two-step scaling.
template <class D>
HWY_INLINE hn::Vec<D> exp2_nonpositive(D d, hn::Vec<D> x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (math::kIsFloat<D>) {
    // 2^x = 2^(n / 32) * 2^rest, |rest| <= 1/64: a parabola does, and nearly all else is left to units that do not
    // multiply. The sum with 1.5 * 2^18 ends in the bits of n. Relative error of the parabola 5.3e-8.
    const __m512 rounder = _mm512_set1_ps(0x1.8p18f), bits = _mm512_add_ps(x.raw, rounder);
    const __m512i n = _mm512_castps_si512(bits);
    const __m512 rest = _mm512_sub_ps(x.raw, _mm512_sub_ps(bits, rounder));
    const __m512i power = _mm512_permutex2var_epi32(_mm512_load_si512(kPowers), n, _mm512_load_si512(kPowers + 16));
    const __m512 whole = _mm512_castsi512_ps(_mm512_add_epi32(power, _mm512_slli_epi32(n, 18)));
    const __m512 slope = _mm512_fmadd_ps(rest, _mm512_set1_ps(0.24022651f), _mm512_set1_ps(0.69315734f));
    const __mmask16 normal = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-126), _CMP_NLT_UQ);  // or NaN
    return hn::Vec<D>{_mm512_maskz_fmadd_ps(normal, _mm512_mul_ps(rest, whole), slope, whole)};
  }
#endif
  x = math::clamp(d, x, math::kIsFloat<D> ? -127. : -1023., 1);
  const auto n = hn::Sub(hn::Add(x, math::rounder(d)), math::rounder(d)), rest = hn::Sub(x, n);
  if constexpr (math::kIsFloat<D>) {
    // Minimax for |rest| <= 1/2, relative error 7e-8.
    const auto fraction = math::polynomial(d, rest, 1, 0.693147206, 0.240226469, 0.0555032878, 0.00961848896,
                                           0.00133999314, 0.00015345812);
    return hn::Mul(fraction, math::power_of_2(d, n));
  } else {
    const auto fraction = math::expm1_reduced(d, hn::Mul(rest, math::constant(d, 0.69314718055994530942)));
    return hn::Mul(hn::Add(math::constant(d, 1), fraction), math::power_of_2(d, n));
  }
}

// Scores are scaled last: a tile holds s = sign(scale) * q k^T, the same bits in both passes, and p is the exponential
// of |scale| * (s - largest), a difference that has not been rounded to the digits of a large score.
template <class T>
struct Scale {
  T sign, factor;  // factor is in units of log2, and above 0: times -infinity it is still -infinity

  explicit Scale(T scale)
      : sign(static_cast<T>((scale > 0) - (scale < 0))),
        factor(scale == 0 ? T(1) : std::abs(scale) * T(1.4426950408889634)) {}

  HWY_INLINE void apply_sign(ScoreTile<T>& tile) const {
    using S = TileShape<T>;
    if (sign == 1) return;
    THALWEG_TILE(r, S::kRows, v, S::kVectors) tile[r][v] = hn::Mul(tile[r][v], hn::Set(S::d, sign));
  }
  HWY_INLINE VecOf<T> exponential(VecOf<T> s, VecOf<T> largest) const {
    const hn::ScalableTag<T> d;
    return exp2_nonpositive(d, hn::Mul(hn::Sub(s, largest), hn::Set(d, factor)));
  }
};

// tile[r][v] += sum over i < n of a[r * kRowStep + i * kStep] * b[i * ldb + vector v]
template <int kRowStep, int kStep, int kVectors, class T>
HWY_INLINE void accumulate(VecOf<T> (&tile)[TileShape<T>::kOutRows][kVectors], const T* HWY_RESTRICT a,
                           const T* HWY_RESTRICT b, std::int64_t ldb, std::int64_t n) {
  using S = TileShape<T>;
  HWY_UNROLL(2)
  for (std::int64_t i = 0; i < n; ++i, a += kStep, b += ldb) {
    VecOf<T> row[kVectors];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(S::d, b + v * S::kWidth);
    HWY_UNROLL(8)
    for (int r = 0; r < S::kOutRows; ++r) {
      const VecOf<T> x = hn::Set(S::d, a[r * kRowStep]);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) tile[r][v] = hn::MulAdd(x, row[v], tile[r][v]);
    }
  }
}

// Loads kOutRows rows of c [.., ldc], lets `add(tile, column)` add to them and stores them: whole tiles first, then
// narrower ones. columns is a multiple of the vector width.
template <int kVectors, class T, class Add>
HWY_INLINE std::int64_t update_columns(T* c, std::int64_t ldc, std::int64_t at, std::int64_t columns, Add add) {
  using S = TileShape<T>;
  for (; at + kVectors * S::kWidth <= columns; at += kVectors * S::kWidth) {
    VecOf<T> tile[S::kOutRows][kVectors];
    THALWEG_TILE(r, S::kOutRows, v, kVectors) tile[r][v] = hn::LoadU(S::d, c + r * ldc + at + v * S::kWidth);
    add(tile, at);
    THALWEG_TILE(r, S::kOutRows, v, kVectors) hn::StoreU(tile[r][v], S::d, c + r * ldc + at + v * S::kWidth);
  }
  return at;
}

template <class T, class Add>
HWY_INLINE void update_rows(T* c, std::int64_t ldc, std::int64_t columns, Add add) {
  std::int64_t at = update_columns<TileShape<T>::kOutVectors>(c, ldc, 0, columns, add);
  if constexpr (TileShape<T>::kOutVectors > 2) at = update_columns<2>(c, ldc, at, columns, add);
  update_columns<1>(c, ldc, at, columns, add);
}

#if HWY_TARGET != HWY_SCALAR
// Four neighbours of every fourth row, one block of the vector after the other.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* from, std::int64_t ld) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    const T* upper = from + static_cast<std::int64_t>(hn::MaxLanes(half)) * ld;
    return hn::Combine(d, load_blocks(half, upper, ld), load_blocks(half, from, ld));
  }
}

// out[c][r] = in[r][c] * factor for as many rows as a vector has lanes, and 4 columns
template <class D, class T>
HWY_INLINE void transpose_columns(D d, const T* in, std::int64_t ld, T factor, T* out, std::int64_t out_ld) {
  const auto row = [&](int r) HWY_ATTR { return hn::Mul(load_blocks(d, in + r * ld, ld), hn::Set(d, factor)); };
  const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
  const auto low02 = hn::InterleaveLower(d, r0, r2), low13 = hn::InterleaveLower(d, r1, r3);
  const auto high02 = hn::InterleaveUpper(d, r0, r2), high13 = hn::InterleaveUpper(d, r1, r3);
  hn::StoreU(hn::InterleaveLower(d, low02, low13), d, out);
  hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, out + out_ld);
  hn::StoreU(hn::InterleaveLower(d, high02, high13), d, out + 2 * out_ld);
  hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, out + 3 * out_ld);
}
#endif

// x [rows, width] -> out [slabs][width][slab], times factor; missing rows of the last slab become 0.
template <class T>
void pack_transposed(Rows<T> x, std::int64_t rows, std::int64_t width, T factor, T* out) {
  constexpr std::int64_t kSlab = TileShape<T>::kSlab, kStep = TileShape<T>::kWidth;
  const std::int64_t padded_rows = divide_up(rows, kSlab) * kSlab;
  for (std::int64_t row = 0; row < padded_rows; row += kStep) {
    T* to = out + row / kSlab * width * kSlab + row % kSlab;
    std::int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(T) == 4)
      for (; row + kStep <= rows && column + 4 <= width; column += 4)
        transpose_columns(TileShape<T>::d, x.at(row) + column, x.stride, factor, to + column * kSlab, kSlab);
#endif
    for (; column < width; ++column)
      for (std::int64_t r = 0; r < kStep; ++r)
        to[column * kSlab + r] = row + r < rows ? x.at(row + r)[column] * factor : T(0);
  }
}

// x [rows, width] in the type that is computed in, one row after the other.
template <class T, class S>
Rows<T> copied_rows(const Rows<S>& x, std::int64_t rows, std::int64_t width, T* copy) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const S* from = x.at(row);
    T* to = copy + row * width;
    for_each_chunk<T>(width, [&](auto chunk) HWY_ATTR { chunk.store(chunk.load(from), to); });
  }
  return {copy, width};
}

// x [rows, width] in the type that is computed in: itself, or a copy.
template <class T, class S>
Rows<T> wide_rows(const Rows<S>& x, std::int64_t rows, std::int64_t width, [[maybe_unused]] T* copy) {
  if constexpr (std::is_same_v<S, T>)
    return x;
  else
    return copied_rows(x, rows, width, copy);
}

// The same, brought together where they are spread: what is read again and again.
template <class T, class S>
Rows<T> close_rows(const AttentionShape& shape, const Rows<S>& x, std::int64_t rows, std::int64_t width, T* copy) {
  return shape.spread ? copied_rows(x, rows, width, copy) : wide_rows(x, rows, width, copy);
}

// Rows that tiles may read in whole vectors: x [rows, width] itself, or a copy in `copy` with padded rows.
template <class T>
Rows<T> padded_rows(Rows<T> x, std::int64_t rows, std::int64_t width, T* copy) {
  if (!needs_padding(width)) return x;
  for (std::int64_t row = 0; row < rows; ++row) {
    T* end = std::copy_n(x.at(row), width, copy + row * padded(width));
    std::fill(end, copy + (row + 1) * padded(width), T(0));
  }
  return {copy, padded(width)};
}

// The mask of one head as scores: 0 where seen, -infinity elsewhere.
struct HeadMask {
  const std::uint8_t* data;
  std::int64_t query_stride, key_stride;

  HeadMask(const AttentionMask& mask, const AttentionShape& shape, std::int64_t head)
      : data(mask.data), query_stride(mask.query_stride), key_stride(mask.key_stride) {
    if (data != nullptr) data += head / shape.heads * mask.batch_stride + head % shape.heads * mask.head_stride;
  }
};

// out [rows][slab] = from[row * row_stride + column * column_stride] for columns < `columns`
template <class T>
void spread_mask(const std::uint8_t* from, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
                 std::int64_t columns, T* out) {
  for (std::int64_t row = 0; row < rows; ++row, from += row_stride, out += TileShape<T>::kSlab)
    for (std::int64_t column = 0; column < columns; ++column)
      out[column] = from[column * column_stride] != 0 ? T(0) : kMinusInfinity<T>;
}

// tile = -infinity wherever the mask tile is.
template <class T>
HWY_INLINE void apply_mask(ScoreTile<T>& tile, const T* mask) {
  using S = TileShape<T>;
  THALWEG_TILE(r, S::kRows, v, S::kVectors) {
    const VecOf<T> value = hn::LoadU(S::d, mask + r * S::kSlab + v * S::kWidth);
    tile[r][v] = hn::IfThenElse(hn::Lt(value, hn::Zero(S::d)), value, tile[r][v]);
  }
}
#undef THALWEG_TILE

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
