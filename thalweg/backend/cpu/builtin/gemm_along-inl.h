// Products of few columns whose A lies along its rows: sums of vectors along the depth. Included once per target.
#if defined(THALWEG_CPU_BUILTIN_GEMM_ALONG_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_BUILTIN_GEMM_ALONG_INL_H
#undef THALWEG_CPU_BUILTIN_GEMM_ALONG_INL_H
#else
#define THALWEG_CPU_BUILTIN_GEMM_ALONG_INL_H
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "thalweg/backend/cpu/builtin/gemm_narrow.h"
#include "thalweg/backend/cpu/builtin/gemm_thin-inl.h"
#include "thalweg/backend/cpu/builtin/turn-inl.h"
#include "thalweg/backend/cpu/strips.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::builtin::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Columns at a time, and rows for so many: their sums, a vector each, fit the registers.
constexpr int kAlongColumns = HWY_TARGET == HWY_AVX3 ? 12 : 6;
constexpr int along_rows(int columns) {
  if (HWY_TARGET != HWY_AVX3) return columns <= 3 ? 4 : 2;
  return columns <= 6 ? 4 : columns <= 8 ? 3 : 2;
}
// Elements of B that stay in the first-level cache while all rows go by.
template <class T>
constexpr std::int64_t kAlongBlock = 20 * 1024 / sizeof(T);
// Elements of A from what is multiplied to what is asked for: 8 KiB.
template <class T>
constexpr std::int64_t kAlongAhead = 8 * 1024 / sizeof(T);

template <class T>
struct Along {
  const T* a;  // rows, a_row apart
  std::int64_t a_row;
  const T* b;             // packed: [depth in vectors][n][lanes], from a column on
  std::int64_t b_vector;  // elements from one vector of the depth to the next
  std::int64_t depth;
  T* c;
  std::int64_t ldc;
  std::int64_t rows;
  std::int64_t ahead;  // elements to what is to be in the cache soon
  bool accumulate;
};

// C[rows, kColumns] (+)= A B for at most along_rows(kColumns) rows; those that are missing are computed as the last.
template <class T, int kColumns>
void along_kernel(const Along<T>& s) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  constexpr int kRows = along_rows(kColumns), kSums = (kRows * kColumns + 3) / 4 * 4;
  hn::Vec<decltype(d)> sums[kSums];
#pragma GCC unroll 32
  for (auto& sum : sums) sum = hn::Zero(d);
  const T* a[kRows];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) a[i] = s.a + std::min<std::int64_t>(i, s.rows - 1) * s.a_row;
  const T* HWY_RESTRICT b = s.b;
  const auto step = [&](std::int64_t p, std::int64_t count) HWY_ATTR {
    hn::Vec<decltype(d)> row[kRows];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      row[i] = load_first(d, a[i] + p, count);
      __builtin_prefetch(a[i] + p + s.ahead);
    }
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) {
      const auto column = hn::LoadU(d, b + j * lanes);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sums[i * kColumns + j] = hn::MulAdd(row[i], column, sums[i * kColumns + j]);
    }
    b += s.b_vector;
  };
  std::int64_t p = 0;
  for (; p + lanes <= s.depth; p += lanes) step(p, lanes);
  if (p < s.depth) step(p, s.depth - p);
  HWY_ALIGN T found[kSums];
#pragma GCC unroll 8
  for (int i = 0; i < kSums; i += 4) {
    const hn::Vec<decltype(d)> four[4] = {sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
    sum_lanes(four, found + i);
  }
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t j = 0; j < kColumns; ++j) {
      T& c = s.c[i * s.ldc + j];
      c = s.accumulate ? c + found[i * kColumns + j] : found[i * kColumns + j];
    }
}

// packed [depth in vectors][n][lanes] = B, zero beyond the depth
template <class T>
void pack_along(const Product<T>& product, T* packed) {
  constexpr std::int64_t lanes = HWY_LANES(T);
  for (std::int64_t p = 0; p < product.k; p += lanes, packed += product.n * lanes) {
    const std::int64_t depth = std::min(lanes, product.k - p);
    if (depth < lanes) std::fill_n(packed, product.n * lanes, T(0));
    const T* b = product.b + p * product.b_depth;
    if (product.b_column == 1)
      turn<T>({b, product.b_depth}, depth, product.n, {packed, lanes});
    else
      for (std::int64_t j = 0; j < product.n; ++j) std::copy_n(b + j * product.b_column, depth, packed + j * lanes);
  }
}

template <class T>
void multiply_along(const Product<T>& product, T* packed) {
  constexpr std::int64_t lanes = HWY_LANES(T);
  constexpr auto kernels = []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<void (*)(const Along<T>&), kAlongColumns>{along_kernel<T, static_cast<int>(kIndex) + 1>...};
  }
  (std::make_index_sequence<kAlongColumns>());
  pack_along(product, packed);
  const std::int64_t block = std::max(lanes, kAlongBlock<T> / product.n / lanes * lanes);
  const Strips columns(product.n, kAlongColumns);
  for (std::int64_t p = 0; p < product.k; p += block)
    for (std::int64_t strip = 0; strip < columns.count; ++strip) {
      const std::int64_t j = columns.begin(strip), count = columns.size(strip);
      const std::int64_t rows = along_rows(static_cast<int>(count)), group = rows * product.a_row;
      const std::int64_t ahead = group * std::max<std::int64_t>(1, kAlongAhead<T> / group);
      for (std::int64_t row = 0; row < product.m; row += rows)
        kernels[static_cast<std::size_t>(count - 1)](
            {product.a + row * product.a_row + p, product.a_row, packed + p * product.n + j * lanes, product.n * lanes,
             std::min(block, product.k - p), product.c + row * product.ldc + j, product.ldc,
             std::min(rows, product.m - row), ahead, product.accumulate || p > 0});
    }
}

}  // namespace thalweg::cpu::builtin::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
