// Products of few columns whose A lies across: its rows are columns in memory. Included once per target.
#if defined(THALWEG_CPU_BUILTIN_GEMM_ACROSS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_BUILTIN_GEMM_ACROSS_INL_H
#undef THALWEG_CPU_BUILTIN_GEMM_ACROSS_INL_H
#else
#define THALWEG_CPU_BUILTIN_GEMM_ACROSS_INL_H
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "thalweg/backend/cpu/builtin/gemm_narrow.h"
#include "thalweg/backend/cpu/builtin/turn-inl.h"
#include "thalweg/backend/cpu/narrow-inl.h"
#include "thalweg/backend/cpu/strips.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::builtin::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using thalweg::HWY_NAMESPACE::math::load_first;

// Columns whose sums, two vectors each, fit the registers.
constexpr int kAcrossColumns = HWY_TARGET == HWY_AVX3 ? 12 : 6;
constexpr std::int64_t kAcrossDepth = 16;  // of a block of sums
// Elements of a stored row of A at a time: 2 KiB. [4096, 1024]^T [4096, 10] takes 520 us, with 1 KiB 610.
template <class T>
constexpr std::int64_t kAcrossRows = 2048 / sizeof(T);

template <class T>
struct Across {
  const T* a;  // [depth] rows, a_depth apart
  std::int64_t a_depth;
  const T* b;
  std::int64_t b_depth, b_column;
  std::int64_t depth;
  T* sums;             // [columns][kAcrossRows]
  std::int64_t count;  // of elements of a row
};

// sums [kColumns, kVectors * lanes] += A^T B, a lane for each row of the result; `count` of the last vector's lanes.
template <class T, int kColumns, int kVectors>
void across_kernel(const Across<T>& s) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  hn::Vec<decltype(d)> sums[kColumns][kVectors];
#pragma GCC unroll 16
  for (auto& column : sums)
#pragma GCC unroll 2
    for (auto& sum : column) sum = hn::Zero(d);
  const T* HWY_RESTRICT a = s.a;
  const T* HWY_RESTRICT b = s.b;
  for (std::int64_t p = 0; p < s.depth; ++p, a += s.a_depth, b += s.b_depth) {
    hn::Vec<decltype(d)> rows[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      rows[v] = kVectors == 1 ? load_first(d, a, s.count) : hn::LoadU(d, a + v * lanes);
      __builtin_prefetch(a + kAcrossDepth * s.a_depth + v * lanes);
    }
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) {
      const auto value = hn::Set(d, b[j * s.b_column]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[j][v] = hn::MulAdd(value, rows[v], sums[j][v]);
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < kColumns; ++j)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      T* to = s.sums + j * kAcrossRows<T> + v * lanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), sums[j][v]), d, to);
    }
}

template <class T>
using AcrossKernel = void (*)(const Across<T>&);

// kernels[c - 1] computes c columns.
template <class T, int kVectors, std::size_t... kIndex>
constexpr std::array<AcrossKernel<T>, sizeof...(kIndex)> across_kernels(std::index_sequence<kIndex...>) {
  return {across_kernel<T, static_cast<int>(kIndex) + 1, kVectors>...};
}

// The sums of `rows` rows of the result, at most kAcrossRows, over the whole depth.
template <class T>
void sum_across(const Product<T>& product, std::int64_t row, std::int64_t rows, T* sums) {
  constexpr std::int64_t lanes = HWY_LANES(T);
  constexpr auto whole = across_kernels<T, 2>(std::make_index_sequence<kAcrossColumns>());
  constexpr auto part = across_kernels<T, 1>(std::make_index_sequence<kAcrossColumns>());
  const Strips columns(product.n, kAcrossColumns);
  std::fill_n(sums, product.n * kAcrossRows<T>, T(0));
  for (std::int64_t p = 0; p < product.k; p += kAcrossDepth) {
    Across<T> s{};
    s.a_depth = product.a_depth, s.b_depth = product.b_depth, s.b_column = product.b_column;
    s.depth = std::min(kAcrossDepth, product.k - p);
    for (std::int64_t i = 0; i < rows;) {
      const bool two = rows - i >= 2 * lanes;
      s.a = product.a + p * product.a_depth + row + i;
      s.count = rows - i;
      for (std::int64_t strip = 0; strip < columns.count; ++strip) {
        const std::int64_t j = columns.begin(strip);
        s.b = product.b + p * product.b_depth + j * product.b_column;
        s.sums = sums + j * kAcrossRows<T> + i;
        (two ? whole : part)[static_cast<std::size_t>(columns.size(strip) - 1)](s);
      }
      i += two ? 2 * lanes : lanes;
    }
  }
}

template <class T>
void multiply_across(const Product<T>& product) {
  HWY_ALIGN T sums[kNarrowColumns * kAcrossRows<T>];
  for (std::int64_t row = 0; row < product.m; row += kAcrossRows<T>) {
    const std::int64_t rows = std::min(kAcrossRows<T>, product.m - row);
    sum_across(product, row, rows, sums);
    T* c = product.c + row * product.ldc;
    if (!product.accumulate) turn<T>({sums, kAcrossRows<T>}, product.n, rows, {c, product.ldc});
    for (std::int64_t i = 0; product.accumulate && i < rows; ++i)
      for (std::int64_t j = 0; j < product.n; ++j) c[i * product.ldc + j] += sums[j * kAcrossRows<T> + i];
  }
}

}  // namespace thalweg::cpu::builtin::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
