// Products of little depth: what takes time is to write C, row after row. Included once per target.
#if defined(THALWEG_CPU_BUILTIN_GEMM_SHALLOW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_BUILTIN_GEMM_SHALLOW_INL_H
#undef THALWEG_CPU_BUILTIN_GEMM_SHALLOW_INL_H
#else
#define THALWEG_CPU_BUILTIN_GEMM_SHALLOW_INL_H
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "thalweg/backend/cpu/builtin/gemm_narrow.h"
#include "thalweg/backend/cpu/builtin/turn-inl.h"
#include "thalweg/backend/cpu/narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::builtin::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using thalweg::HWY_NAMESPACE::math::load_first;
using thalweg::HWY_NAMESPACE::math::store_first;

// Rows at a time, each with kShallowVectors of sums: 24 of 32 registers with AVX-512, 12 of 16 otherwise.
constexpr int kShallowRows = HWY_TARGET == HWY_AVX3 ? 6 : 3;
constexpr int kShallowVectors = 4;
// Columns of a panel of B: [k] rows of at most so many.
template <class T>
constexpr std::int64_t kShallowColumns = kShallowVectors* HWY_LANES(T);

// kVectors of columns of kRows rows, or `count` lanes of one.
template <class T, int kRows, int kVectors>
HWY_INLINE void shallow_columns(const Product<T>& product, const T* a, const T* b, std::int64_t b_depth, T* c,
                                std::int64_t count) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  hn::Vec<decltype(d)> sums[kRows][kVectors];
#pragma GCC unroll 8
  for (auto& row : sums)
#pragma GCC unroll 4
    for (auto& sum : row) sum = hn::Zero(d);
  for (std::int64_t p = 0; p < product.k; ++p, b += b_depth, a += product.a_depth) {
    hn::Vec<decltype(d)> row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = kVectors == 1 ? load_first(d, b, count) : hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const auto value = hn::Set(d, a[i * product.a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(value, row[v], sums[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      T* to = c + i * product.ldc + v * lanes;
      const std::int64_t left = kVectors == 1 ? count : lanes;
      store_first(product.accumulate ? hn::Add(load_first(d, to, left), sums[i][v]) : sums[i][v], d, to, left);
    }
}

// All columns of kRows rows.
template <class T, int kRows>
void shallow_rows(const Product<T>& product, std::int64_t row) {
  constexpr std::int64_t lanes = HWY_LANES(T);
  const T* a = product.a + row * product.a_row;
  for (std::int64_t j = 0; j < product.n; j += kShallowColumns<T>) {
    const std::int64_t columns = std::min(kShallowColumns<T>, product.n - j);
    const T* b = product.panels != nullptr ? product.panels + j * product.k : product.b + j;
    const std::int64_t b_depth = product.panels != nullptr ? columns : product.b_depth;
    T* c = product.c + row * product.ldc + j;
    if (columns == kShallowColumns<T>)
      shallow_columns<T, kRows, kShallowVectors>(product, a, b, b_depth, c, lanes);
    else
      for (std::int64_t i = 0; i < columns; i += lanes)
        shallow_columns<T, kRows, 1>(product, a, b + i, b_depth, c + i, columns - i);
  }
}

// Panels of B, whose columns lie along memory.
template <class T>
void turn_panels(const Product<T>& product, T* panels) {
  for (std::int64_t j = 0; j < product.n; j += kShallowColumns<T>) {
    const std::int64_t columns = std::min(kShallowColumns<T>, product.n - j);
    turn<T>({product.b + j * product.b_column, product.b_column}, columns, product.k,
            {panels + j * product.k, columns});
  }
}

template <class T>
void multiply_shallow(Product<T> product, T* scratch) {
  constexpr auto kernels = []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<void (*)(const Product<T>&, std::int64_t), kShallowRows>{
        shallow_rows<T, static_cast<int>(kIndex) + 1>...};
  }
  (std::make_index_sequence<kShallowRows>());
  if (product.b_column != 1) {
    turn_panels(product, scratch);
    product.panels = scratch;
  }
  for (std::int64_t row = 0; row < product.m; row += kShallowRows)
    kernels[static_cast<std::size_t>(std::min<std::int64_t>(kShallowRows, product.m - row) - 1)](product, row);
}

}  // namespace thalweg::cpu::builtin::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
