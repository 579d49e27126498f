// Products of few rows, or of few columns, which no panels would help. Included once per target.
#if defined(THALWEG_CPU_BUILTIN_GEMM_THIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_BUILTIN_GEMM_THIN_INL_H
#undef THALWEG_CPU_BUILTIN_GEMM_THIN_INL_H
#else
#define THALWEG_CPU_BUILTIN_GEMM_THIN_INL_H
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "thalweg/backend/cpu/builtin/gemm_kernels.h"
#include "thalweg/backend/cpu/narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::builtin::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using thalweg::HWY_NAMESPACE::math::FirstLanes;
using thalweg::HWY_NAMESPACE::math::load_first;
using thalweg::HWY_NAMESPACE::math::store_first;

// Rows whose sums, two vectors each, fit the registers.
constexpr int kThinRows = HWY_TARGET == HWY_AVX3 ? 8 : 6;

// C (+)= sums of kRows rows and kVectors of columns from j on, over one block of the depth.
template <class T, int kRows, int kVectors>
HWY_INLINE void add_thin(const Product<T>& product, std::int64_t j, bool add,
                         const hn::Vec<hn::ScalableTag<T>> (&sums)[kRows][kVectors]) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      T* c = product.c + i * product.ldc + j + v * lanes;
      const std::int64_t count = product.n - j - v * lanes;
      store_first(add ? hn::Add(load_first(d, c, count), sums[i][v]) : sums[i][v], d, c, count);
    }
}

// kVectors of columns from j on, for one block of the depth: B is read once and in place. Sums have the order of all
// others: a row's result does not depend on how many there are.
template <class T, int kRows, int kVectors>
void thin_kernel(const Product<T>& product, std::int64_t depth_begin, std::int64_t depth, std::int64_t j) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  const std::int64_t a_row = product.a_row, a_depth = product.a_depth, b_depth = product.b_depth;
  const FirstLanes<decltype(d)> last(d, product.n - j - (kVectors - 1) * lanes);  // columns of the last vector
  const T* HWY_RESTRICT a = product.a + depth_begin * a_depth;
  const T* HWY_RESTRICT b = product.b + depth_begin * b_depth + j;
  hn::Vec<decltype(d)> sums[kRows][kVectors];
#pragma GCC unroll 16
  for (auto& row : sums)
#pragma GCC unroll 2
    for (auto& sum : row) sum = hn::Zero(d);
  for (std::int64_t p = 0; p < depth; ++p, a += a_depth, b += b_depth)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const auto row = v + 1 < kVectors ? hn::LoadU(d, b + v * lanes) : last.load(b + v * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) sums[i][v] = hn::MulAdd(hn::Set(d, a[i * a_row]), row, sums[i][v]);
    }
  add_thin<T, kRows, kVectors>(product, j, product.accumulate || depth_begin > 0, sums);
}

// One vector of columns for two blocks of the depth, of which the second may be the shorter one: few rows would wait
// for their own sums. Each block has its sums, added one after the other, so that they are those of thin_kernel.
template <class T, int kRows>
void thin_pair_kernel(const Product<T>& product, std::int64_t depth_begin, std::int64_t second) {
  const hn::ScalableTag<T> d;
  const FirstLanes<decltype(d)> columns(d, product.n);
  const std::int64_t a_row = product.a_row, a_depth = product.a_depth, b_depth = product.b_depth;
  const T* HWY_RESTRICT a = product.a + depth_begin * a_depth;
  const T* HWY_RESTRICT b = product.b + depth_begin * b_depth;
  hn::Vec<decltype(d)> sums[2][kRows][1];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) sums[0][i][0] = sums[1][i][0] = hn::Zero(d);
  const auto step = [&](auto& block, const T* from_a, const T* from_b) HWY_ATTR {
    const auto row = columns.load(from_b);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) block[i][0] = hn::MulAdd(hn::Set(d, from_a[i * a_row]), row, block[i][0]);
  };
  std::int64_t p = 0;
  for (; p < second; ++p, a += a_depth, b += b_depth) {
    step(sums[0], a, b);
    step(sums[1], a + kBlockDepth * a_depth, b + kBlockDepth * b_depth);
  }
  for (; p < kBlockDepth; ++p, a += a_depth, b += b_depth) step(sums[0], a, b);
  add_thin<T, kRows, 1>(product, 0, product.accumulate || depth_begin > 0, sums[0]);
  add_thin<T, kRows, 1>(product, 0, true, sums[1]);
}

template <class T, std::size_t... kIndex>
constexpr auto thin_pair_kernels(std::index_sequence<kIndex...>) {
  return std::array<void (*)(const Product<T>&, std::int64_t, std::int64_t), sizeof...(kIndex)>{
      thin_pair_kernel<T, static_cast<int>(kIndex) + 1>...};
}

template <class T>
using ThinKernel = void (*)(const Product<T>&, std::int64_t depth_begin, std::int64_t depth, std::int64_t j);

// kernels[r - 1] computes r rows.
template <class T, int kVectors, std::size_t... kIndex>
constexpr std::array<ThinKernel<T>, sizeof...(kIndex)> thin_kernels(std::index_sequence<kIndex...>) {
  return {thin_kernel<T, static_cast<int>(kIndex) + 1, kVectors>...};
}

// The sums of kRows rows and `columns` columns, at most kStreamed vectors, over kDepth rows of B from b on, added to
// sums [kRows][kStreamed * lanes]. A row of B is read along its memory, and the rows after these are asked for.
constexpr std::int64_t kStreamed = 16;

template <class T, int kRows, int kDepth>
HWY_INLINE void stream_rows(const Product<T>& product, std::int64_t p, std::int64_t j, std::int64_t columns, T* sums) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  const T* b = product.b + p * product.b_depth + j;
  for (std::int64_t at = 0; at < columns; at += lanes) {
    hn::Vec<decltype(d)> row[kDepth];
#pragma GCC unroll 4
    for (int i = 0; i < kDepth; ++i) {
      row[i] = load_first(d, b + i * product.b_depth + at, columns - at);
      __builtin_prefetch(b + (i + 2 * kDepth) * product.b_depth + at);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      T* to = sums + r * kStreamed * lanes + at;
      auto sum = hn::Load(d, to);
#pragma GCC unroll 4
      for (int i = 0; i < kDepth; ++i)
        sum = hn::MulAdd(hn::Set(d, product.a[r * product.a_row + (p + i) * product.a_depth]), row[i], sum);
      hn::Store(sum, d, to);
    }
  }
}

// A product of few rows for one block of the depth, where B comes from memory: as fast as that is read. Sums have the
// same order as those of thin_kernel.
template <class T, int kRows>
void stream_kernel(const Product<T>& product, std::int64_t depth_begin, std::int64_t depth) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T), width = kStreamed * lanes;
  HWY_ALIGN T sums[kRows * width];
  const bool add = product.accumulate || depth_begin > 0;
  for (std::int64_t j = 0; j < product.n; j += width) {
    const std::int64_t columns = std::min(width, product.n - j), end = depth_begin + depth;
    std::fill_n(sums, kRows * width, T(0));
    std::int64_t p = depth_begin;
    for (; p + 4 <= end; p += 4) stream_rows<T, kRows, 4>(product, p, j, columns, sums);
    for (; p < end; ++p) stream_rows<T, kRows, 1>(product, p, j, columns, sums);
    for (int r = 0; r < kRows; ++r)
      for (std::int64_t at = 0; at < columns; at += lanes) {
        T* c = product.c + r * product.ldc + j + at;
        const auto sum = hn::Load(d, sums + r * width + at);
        store_first(add ? hn::Add(load_first(d, c, columns - at), sum) : sum, d, c, columns - at);
      }
  }
}

template <class T, std::size_t... kIndex>
constexpr auto stream_kernels(std::index_sequence<kIndex...>) {
  return std::array<void (*)(const Product<T>&, std::int64_t, std::int64_t), sizeof...(kIndex)>{
      stream_kernel<T, static_cast<int>(kIndex) + 1>...};
}

// A product of at most kThinRows rows and one vector of columns for two blocks of the depth.
template <class T>
void multiply_thin_pair(const Product<T>& product, std::int64_t depth_begin, std::int64_t second) {
  constexpr auto kernels = thin_pair_kernels<T>(std::make_index_sequence<kThinRows>());
  kernels[static_cast<std::size_t>(product.m - 1)](product, depth_begin, second);
}

// All of a product of at most kThinRows rows for one block of the depth.
template <class T>
void multiply_thin(const Product<T>& product, std::int64_t depth_begin, std::int64_t depth) {
  constexpr std::int64_t lanes = HWY_LANES(T);
  constexpr auto narrow = thin_kernels<T, 1>(std::make_index_sequence<kThinRows>());
  constexpr auto wide = thin_kernels<T, 2>(std::make_index_sequence<kThinRows>());
  constexpr auto streamed = stream_kernels<T>(std::make_index_sequence<kThinRows>());
  const auto index = static_cast<std::size_t>(product.m - 1);
  if (product.b_in_place) return streamed[index](product, depth_begin, depth);
  for (std::int64_t j = 0; j < product.n; j += 2 * lanes)
    (product.n - j <= lanes ? narrow : wide)[index](product, depth_begin, depth, j);
}

// The sums of the lanes of four vectors. A sum does not depend on the others.
template <class T>
HWY_INLINE void sum_lanes(const hn::Vec<hn::ScalableTag<T>> (&v)[4], T* sums) {
  const hn::ScalableTag<T> d;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  if constexpr (sizeof(T) == 4) {  // the same three steps for all four at once
    const hn::Repartition<double, decltype(d)> pairs;
    const auto ab = hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
    const auto cd = hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
    const auto x = hn::BitCast(pairs, ab), y = hn::BitCast(pairs, cd);
    const auto all =
        hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, x, y)), hn::BitCast(d, hn::InterleaveUpper(pairs, x, y)));
    const hn::Half<decltype(d)> half;
    const auto halves = hn::Add(hn::LowerHalf(half, all), hn::UpperHalf(half, all));
#if HWY_TARGET == HWY_AVX3
    const hn::Half<decltype(half)> quarter;
    return hn::StoreU(hn::Add(hn::LowerHalf(quarter, halves), hn::UpperHalf(quarter, halves)), quarter, sums);
#else
    return hn::StoreU(halves, half, sums);
#endif
  }
#endif
  for (int i = 0; i < 4; ++i) sums[i] = hn::GetLane(hn::SumOfLanes(d, v[i]));
}

// b of one column, of which the last vector may be shorter.
template <class T>
struct Column {
  const T* b;
  std::int64_t whole, rest;  // of its elements: in whole vectors, and behind them
  hn::Vec<hn::ScalableTag<T>> last;
};

// sums[i] = a[i] b for four rows.
template <class T>
HWY_INLINE void multiply_four_rows(const Column<T>& column, const std::array<const T*, 4>& a, T* sums) {
  const hn::ScalableTag<T> d;
  hn::Vec<decltype(d)> products[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (std::int64_t p = 0; p < column.whole; p += HWY_LANES(T))
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i)
      products[i] = hn::MulAdd(hn::LoadU(d, a[i] + p), hn::LoadU(d, column.b + p), products[i]);
  if (column.rest > 0)
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i)
      products[i] = hn::MulAdd(load_first(d, a[i] + column.whole, column.rest), column.last, products[i]);
  sum_lanes(products, sums);
}

// C (+)= A b, one column: rows of A, four at a time, times b, both read along their depth.
template <class T>
void multiply_column(const Product<T>& product) {
  const hn::ScalableTag<T> d;
  const std::int64_t whole = product.k / HWY_LANES(T) * HWY_LANES(T), rest = product.k - whole, step = product.a_row;
  const Column<T> column{product.b, whole, rest, rest > 0 ? load_first(d, product.b + whole, rest) : hn::Zero(d)};
  const T* a = product.a;
  std::int64_t row = 0;
  if (product.ldc == 1 && !product.accumulate)
    for (; row + 4 <= product.m; row += 4, a += 4 * step)
      multiply_four_rows<T>(column, {a, a + step, a + 2 * step, a + 3 * step}, product.c + row);
  for (; row < product.m; row += 4, a += 4 * step) {
    const std::int64_t rows = std::min<std::int64_t>(4, product.m - row), last = (rows - 1) * step;
    T sums[4];
    multiply_four_rows<T>(column, {a, a + std::min(step, last), a + std::min(2 * step, last), a + last}, sums);
    for (std::int64_t i = 0; i < rows; ++i) {
      T& c = product.c[(row + i) * product.ldc];
      c = product.accumulate ? c + sums[i] : sums[i];
    }
  }
}

// A product so narrow and shallow that all of B, [kDepth] vectors, stays in registers.
template <class T, int kDepth>
void narrow_kernel(const Product<T>& product) {
  const hn::ScalableTag<T> d;
  hn::Vec<decltype(d)> b[kDepth];
#pragma GCC unroll 8
  for (int p = 0; p < kDepth; ++p) b[p] = load_first(d, product.b + p * product.b_depth, product.n);
  const std::int64_t m = product.m, n = product.n, a_row = product.a_row, a_depth = product.a_depth;
  const T* HWY_RESTRICT a = product.a;
  T* HWY_RESTRICT c = product.c;
  const auto row = [&](const T* from) HWY_ATTR {
    auto sum = hn::Zero(d);
#pragma GCC unroll 8
    for (int p = 0; p < kDepth; ++p) sum = hn::MulAdd(hn::Set(d, from[p * a_depth]), b[p], sum);
    return sum;
  };
  std::int64_t i = 0;
  if (product.ldc == n && !product.accumulate)  // whole vectors: the next row overwrites what is too much
    for (; i * n + static_cast<std::int64_t>(HWY_LANES(T)) <= m * n; ++i, a += a_row, c += n) hn::StoreU(row(a), d, c);
  for (; i < m; ++i, a += a_row, c += product.ldc)
    store_first(product.accumulate ? hn::Add(load_first(d, c, n), row(a)) : row(a), d, c, n);
}

constexpr int kShallow = 8;

template <class T>
void multiply_narrow(const Product<T>& product) {
  constexpr auto kernels = []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<void (*)(const Product<T>&), kShallow>{narrow_kernel<T, static_cast<int>(kIndex) + 1>...};
  }
  (std::make_index_sequence<kShallow>());
  kernels[static_cast<std::size_t>(product.k - 1)](product);
}

// C (+)= A b, one column of results side by side: rows of A that lie across its memory. Four sums go along, since one
// would wait for itself.
template <class T>
void multiply_column_across(const Product<T>& product) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  const std::int64_t a_depth = product.a_depth, b_depth = product.b_depth;
  for (std::int64_t row = 0; row < product.m; row += lanes) {
    const std::int64_t count = std::min(lanes, product.m - row);
    const FirstLanes<decltype(d)> rows(d, count);
    const T* HWY_RESTRICT a = product.a + row;
    const T* HWY_RESTRICT b = product.b;
    hn::Vec<decltype(d)> sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    std::int64_t p = 0;
    for (; p + 4 <= product.k; p += 4, a += 4 * a_depth, b += 4 * b_depth)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sums[i] = hn::MulAdd(hn::Set(d, b[i * b_depth]), rows.load(a + i * a_depth), sums[i]);
    for (; p < product.k; ++p, a += a_depth, b += b_depth) sums[0] = hn::MulAdd(hn::Set(d, *b), rows.load(a), sums[0]);
    const auto sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
    T* c = product.c + row;
    store_first(product.accumulate ? hn::Add(load_first(d, c, count), sum) : sum, d, c, count);
  }
}

}  // namespace thalweg::cpu::builtin::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
