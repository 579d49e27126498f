// Register tiles of attention: the products, and the layouts they read. Included once per target.
#if defined(THALWEG_CPU_KERNELS_ATTENTION_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_ATTENTION_TILES_INL_H
#undef THALWEG_CPU_KERNELS_ATTENTION_TILES_INL_H
#else
#define THALWEG_CPU_KERNELS_ATTENTION_TILES_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "thalweg/backend/cpu/kernels/attention_elements-inl.h"
#include "thalweg/backend/cpu/kernels/attention_plan.h"
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
  static_assert(kSlab <= kLargestSlab && kSlab % kOutRows == 0 && kRows % kOutRows == 0);
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

// The tile as elements across its rows, [rows or pairs of them][slab].
template <class E, class T = Computed<E>>
HWY_INLINE void store_across(const ScoreTile<T>& tile, E* to) {
  using S = TileShape<T>;
  if constexpr (kNumbers<E> == 1) {
    store_tile<T>(tile, to);
  } else {
    THALWEG_TILE(r, S::kRows / 2, v, S::kVectors) {
      const VecOf<T> rows[2] = {tile[2 * r][v], tile[2 * r + 1][v]};
      store_elements(rows, to + r * S::kSlab + v * S::kWidth);
    }
  }
}

#if HWY_TARGET == HWY_AVX3
// … and as pairs along its rows, [rows][slab / 2].
HWY_INLINE void store_along(const ScoreTile<float>& tile, Pair* to) {
  using S = TileShape<float>;
  static_assert(S::kVectors == 2);
  HWY_UNROLL(8)
  for (int r = 0; r < S::kRows; ++r) store_pairs(round_in_order(tile[r][0], tile[r][1]), to + r * S::kWidth);
}
#endif

// tile = A B: kRows rows of a [count, depth] from `row` on (the last row stands in for missing ones), b [depth][slab].
// Only vectors kBegin … kEnd of the slab are computed, the others are 0.
template <int kBegin, int kEnd, class E, class T = Computed<E>>
HWY_INLINE void multiply_rows(ScoreTile<T>& tile, const E* a, std::int64_t row, std::int64_t count, std::int64_t depth,
                              const E* HWY_RESTRICT b) {
  using S = TileShape<T>;
  const E* rows[S::kRows];
  HWY_UNROLL(8)
  for (int r = 0; r < S::kRows; ++r) rows[r] = a + std::min(row + r, count - 1) * depth;
  THALWEG_TILE(r, S::kRows, v, S::kVectors) tile[r][v] = hn::Zero(S::d);
  for (std::int64_t i = 0; i < depth; ++i, b += S::kSlab) {
    VecOf<T> column[S::kVectors];
    HWY_UNROLL(8)
    for (int v = kBegin; v < kEnd; ++v) column[v] = load_elements(b + v * S::kWidth);
    HWY_UNROLL(8)
    for (int r = 0; r < S::kRows; ++r) {
      const VecOf<T> x = broadcast(rows[r] + i);
      HWY_UNROLL(8)
      for (int v = kBegin; v < kEnd; ++v) tile[r][v] = multiply_add_elements<E>(x, column[v], tile[r][v]);
    }
  }
}

// Asks for the lines of x [n], which the block after this one reads.
template <class T>
HWY_INLINE void prefetch(const T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 64 / static_cast<std::int64_t>(sizeof(T))) __builtin_prefetch(x + i);
}

// 2^x for x <= 0, exactly 0 for -infinity; NaN stays. Results below the smallest normal number may be 0. Attention
// saves the second multiplication of exp's reduction and its two-step scaling.
template <class D>
HWY_INLINE hn::Vec<D> exp2_nonpositive(D d, hn::Vec<D> x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (math::kIsFloat<D>) {
    // x less its floor in one instruction, no clamp needed. Minimax for [0, 1), relative error of the polynomial 2e-9.
    const hn::Vec<D> rest{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
    const auto fraction = math::polynomial(d, rest, 1, 0.6931470444, 0.2402293056, 0.05548528062, 0.009675451567,
                                           0.001246784645, 0.0002161291495);
    return hn::Vec<D>{_mm512_scalef_ps(fraction.raw, x.raw)};
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
template <int kRowStep, int kStep, int kVectors, class E, class T = Computed<E>>
HWY_INLINE void accumulate(VecOf<T> (&tile)[TileShape<T>::kOutRows][kVectors], const E* HWY_RESTRICT a,
                           const E* HWY_RESTRICT b, std::int64_t ldb, std::int64_t n) {
  using S = TileShape<T>;
  HWY_UNROLL(2)
  for (std::int64_t i = 0; i < n; ++i, a += kStep, b += ldb) {
    VecOf<T> row[kVectors];
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) row[v] = load_elements(b + v * S::kWidth);
    HWY_UNROLL(8)
    for (int r = 0; r < S::kOutRows; ++r) {
      const VecOf<T> x = broadcast(a + r * kRowStep);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) tile[r][v] = multiply_add_elements<E>(x, row[v], tile[r][v]);
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

// The mask of one head as scores: 0 where seen, -infinity elsewhere.
struct HeadMask {
  const std::uint8_t* data;
  std::int64_t query_stride, key_stride;

  HeadMask(const AttentionMask& mask, const AttentionShape& shape, std::int64_t head)
      : data(mask.data), query_stride(mask.query_stride), key_stride(mask.key_stride) {
    if (data != nullptr) data += head / shape.heads * mask.batch_stride + head % shape.heads * mask.head_stride;
  }
};

// out [rows][slab] = from[row * row_stride + column * column_stride] for columns < `columns`; hidden up to a whole
// tile.
template <class T>
void spread_mask(const std::uint8_t* from, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
                 std::int64_t columns, T* out) {
  for (std::int64_t row = 0; row < rows; ++row, from += row_stride, out += TileShape<T>::kSlab)
    for (std::int64_t column = 0; column < columns; ++column)
      out[column] = from[column * column_stride] != 0 ? T(0) : kMinusInfinity<T>;
  const std::int64_t missing = divide_up(rows, TileShape<T>::kRows) * TileShape<T>::kRows - rows;
  std::fill_n(out, missing * TileShape<T>::kSlab, kMinusInfinity<T>);
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
