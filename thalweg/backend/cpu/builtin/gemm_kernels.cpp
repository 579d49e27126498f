// Register-tiled products. A panel of B, one or two vectors wide, is packed on the stack; rows of A are broadcast
// against it, and the sums of a few rows stay in registers for a whole block of the depth.
#include "thalweg/backend/cpu/builtin/gemm_kernels.h"

#include <algorithm>
#include <array>
#include <utility>

#include "thalweg/backend/cpu/slots.h"
#include "thalweg/backend/cpu/strips.h"
#include "thalweg/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/builtin/gemm_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/builtin/gemm_thin-inl.h"
#include "thalweg/backend/cpu/builtin/turn-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::builtin::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows whose sums fit the registers beside two vectors of B: 28 of 32 with AVX-512, 12 of 16 otherwise. A read in
// place needs an address register for each row, hence fewer.
#if HWY_TARGET == HWY_AVX3
constexpr int kPackedRows = 14, kDirectRows = 8;
#else
constexpr int kPackedRows = 6, kDirectRows = 6;
#endif

// Rows of an array that are to be in the cache when they are read.
template <class T>
struct Fetch {
  const T* first = nullptr;
  std::int64_t rows = 0, stride = 0;
  std::int64_t every = 1;  // steps of the depth for one row
};

template <class T>
struct Strip {
  std::int64_t depth;
  const T* a;  // packed: [depth][rows]
  std::int64_t a_row, a_depth;
  const T* panel;  // [depth][vectors * lanes], rows panel_row apart
  std::int64_t panel_row;
  T* c;
  std::int64_t ldc;
  std::int64_t columns;  // of C; the panel is padded with zeros
  bool accumulate;
  Fetch<T> fetch = {};
};

// Asks for one row. Spread over the depth these requests cost nothing; all at once they would keep the product waiting.
template <class T, int kVectors>
HWY_INLINE void fetch_row(const Fetch<T>& fetch, std::int64_t row) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v)
    __builtin_prefetch(fetch.first + row * fetch.stride + v * static_cast<std::int64_t>(HWY_LANES(T)), 0, 2);
}

// C[rows, columns] (+)= A[rows, depth] panel[depth, columns]
template <class T, int kRows, int kVectors, bool kPacked, bool kFetching = false>
void strip_kernel(const Strip<T>& s) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  hn::Vec<decltype(d)> sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
  const T* HWY_RESTRICT a = s.a;
  const T* HWY_RESTRICT panel = s.panel;
  std::int64_t fetched = 0, fetch_at = 0;
  for (std::int64_t p = 0; p < s.depth; ++p) {
    if (kFetching && p == fetch_at && fetched < s.fetch.rows) {
      fetch_row<T, kVectors>(s.fetch, fetched++);
      fetch_at += s.fetch.every;
    }
    hn::Vec<decltype(d)> b[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) b[v] = hn::LoadU(d, panel + v * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (!kPacked && p % 16 == 0) __builtin_prefetch(a + (i + kRows) * s.a_row, 0, 2);  // the next strip's rows
      const auto value = hn::Set(d, kPacked ? a[i] : a[i * s.a_row]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(value, b[v], sums[i][v]);
    }
    a += kPacked ? kRows : s.a_depth;
    panel += s.panel_row;
  }
  for (; kFetching && fetched < s.fetch.rows; ++fetched) fetch_row<T, kVectors>(s.fetch, fetched);
  const bool accumulate = s.accumulate;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      T* c = s.c + i * s.ldc + v * lanes;
      const std::int64_t count = s.columns - v * lanes;
      if (count <= 0) continue;
      store_first(accumulate ? hn::Add(load_first(d, c, count), sums[i][v]) : sums[i][v], d, c, count);
    }
}

template <class T>
using StripKernel = void (*)(const Strip<T>&);
// kernels[r - 1] computes r rows.
template <class T, int kVectors, bool kPacked, bool kFetching = false, std::size_t... kIndex>
constexpr std::array<StripKernel<T>, sizeof...(kIndex)> strip_kernels(std::index_sequence<kIndex...>) {
  return {strip_kernel<T, static_cast<int>(kIndex) + 1, kVectors, kPacked, kFetching>...};
}

// panel[p, j] = B[p, j], zero beyond `columns`; [depth][width]
template <class T>
void pack_panel(const T* b, std::int64_t b_depth, std::int64_t b_column, std::int64_t depth, std::int64_t columns,
                std::int64_t width, T* panel) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  if (b_column == 1) {
    for (std::int64_t p = 0; p < depth; ++p)
      for (std::int64_t j = 0; j < width; j += lanes) {
        const std::int64_t count = columns - j;
        hn::Store(count > 0 ? load_first(d, b + p * b_depth + j, count) : hn::Zero(d), d, panel + p * width + j);
      }
    return;
  }
  if (columns < width) std::fill_n(panel, depth * width, T(0));
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t p = 0; p < depth; ++p) panel[p * width + j] = b[p * b_depth + j * b_column];
}

// A panel is two vectors wide; the last one is a single vector where that holds its columns.
template <class T>
std::int64_t panel_width(std::int64_t columns) {
  return columns <= static_cast<std::int64_t>(HWY_LANES(T)) ? HWY_LANES(T) : 2 * HWY_LANES(T);
}

// Where the panel at (depth p, column j) lies among those of pack_columns.
template <class T>
std::int64_t panel_offset(const Product<T>& product, std::int64_t p, std::int64_t depth, std::int64_t j) {
  const std::int64_t wide = 2 * HWY_LANES(T), whole = product.n / wide * wide;
  const std::int64_t padded = whole < product.n ? whole + panel_width<T>(product.n - whole) : whole;
  return p * padded + depth * j;
}

template <class T>
void pack_panel_of(const Product<T>& product, std::int64_t p, std::int64_t depth, std::int64_t j, T* panel) {
  const std::int64_t columns = std::min<std::int64_t>(2 * HWY_LANES(T), product.n - j);
  pack_panel(product.b + p * product.b_depth + j * product.b_column, product.b_depth, product.b_column, depth, columns,
             panel_width<T>(columns), panel);
}

template <class T>
void pack_columns(const Product<T>& product, std::int64_t begin, std::int64_t end, T* panels) {
  static_assert(kPanelColumns % (2 * HWY_LANES(T)) == 0);
  for (std::int64_t p = 0; p < product.k; p += kBlockDepth) {
    const std::int64_t depth = std::min(kBlockDepth, product.k - p);
    for (std::int64_t j = begin; j < end; j += 2 * HWY_LANES(T))
      pack_panel_of(product, p, depth, j, panels + panel_offset(product, p, depth, j));
  }
}

// to [rows, columns], at most kPackedRows columns, of rows `ld` apart
template <class T>
void copy_rows(const T* from, std::int64_t ld, std::int64_t rows, std::int64_t columns, T* to) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  for (std::int64_t row = 0; row < rows; ++row, from += ld, to += columns)
    for (std::int64_t j = 0; j < columns; j += lanes)
      store_first(load_first(d, from + j, columns - j), d, to + j, columns - j);
}

template <class T>
void pack_rows(const Product<T>& product, std::int64_t row, std::int64_t rows, std::int64_t depth_begin,
               std::int64_t depth, T* packed) {
  const Strips strips(rows, kPackedRows);
  for (std::int64_t strip = 0; strip < strips.count; ++strip) {
    const std::int64_t size = strips.size(strip);
    const T* a = product.a + (row + strips.begin(strip)) * product.a_row + depth_begin * product.a_depth;
    T* to = packed + strips.begin(strip) * depth;
    if (product.a_row == 1) {
      copy_rows(a, product.a_depth, depth, size, to);
    } else if (product.a_depth == 1) {
      turn<T>({a, product.a_row}, size, depth, {to, size});
    } else {
      for (std::int64_t i = 0; i < size; ++i)
        for (std::int64_t p = 0; p < depth; ++p) to[p * size + i] = a[i * product.a_row + p * product.a_depth];
    }
  }
}

// Of B read in place: this strip's share of what is multiplied after the panel at (depth_begin, j). Were it all asked
// for by the first strip, that one would wait for memory, which is idle during the others.
template <class T>
Fetch<T> next_panel(const Product<T>& product, std::int64_t depth_begin, std::int64_t depth, std::int64_t j,
                    std::int64_t strip, std::int64_t strips) {
  const std::int64_t next = j + 2 * HWY_LANES(T), below = depth_begin + depth;
  const bool beside = next < product.n;
  const std::int64_t rows = beside ? depth : std::min(kBlockDepth, product.k - below);
  const std::int64_t share = ceil_div(rows, strips), first = std::min(rows, strip * share);
  const std::int64_t at = ((beside ? depth_begin : below) + first) * product.b_depth + (beside ? next : 0);
  return {product.b + at, std::min(share, rows - first), product.b_depth, strips};
}

// All columns of C for rows [row, row + rows) and one block of the depth.
template <class T, bool kPacked>
void multiply_block(const Product<T>& product, std::int64_t row, std::int64_t rows, std::int64_t depth_begin,
                    std::int64_t depth, const T* packed) {
  constexpr std::int64_t lanes = HWY_LANES(T);
  constexpr int most = kPacked ? kPackedRows : kDirectRows;
  constexpr auto narrow = strip_kernels<T, 1, kPacked>(std::make_index_sequence<most>());
  constexpr auto wide = strip_kernels<T, 2, kPacked>(std::make_index_sequence<most>());
  constexpr auto fetching = strip_kernels<T, 2, kPacked, kPacked>(std::make_index_sequence<most>());
  HWY_ALIGN T panel[kBlockDepth * 2 * HWY_LANES(T)];
  const Strips strips(rows, most);
  const bool add = product.accumulate || depth_begin > 0;
  for (std::int64_t j = 0; j < product.n; j += 2 * lanes) {
    const std::int64_t columns = std::min(2 * lanes, product.n - j);
    const bool one_vector = panel_width<T>(columns) == lanes;
    const bool in_place = product.b_in_place && columns == 2 * lanes;
    const std::int64_t panel_row = in_place ? product.b_depth : panel_width<T>(columns);
    const T* b = panel;
    if (in_place)
      b = product.b + depth_begin * product.b_depth + j;
    else if (product.panels != nullptr)
      b = product.panels + panel_offset(product, depth_begin, depth, j);
    else
      pack_panel_of(product, depth_begin, depth, j, panel);
    for (std::int64_t i = 0; i < strips.count; ++i) {
      const std::int64_t begin = row + strips.begin(i);
      const T* a = kPacked ? packed + strips.begin(i) * depth
                           : product.a + begin * product.a_row + depth_begin * product.a_depth;
      Strip<T> strip{
          depth,   a,  product.a_row, product.a_depth, b, panel_row, product.c + begin * product.ldc + j, product.ldc,
          columns, add};
      if (product.b_in_place) strip.fetch = next_panel(product, depth_begin, depth, j, i, strips.count);
      if (product.fetch) strip.fetch = {product.fetch + begin * product.ldc + j, strips.size(i), product.ldc};
      const auto& kernels = one_vector ? narrow : strip.fetch.first ? fetching : wide;
      kernels[static_cast<std::size_t>(strips.size(i) - 1)](strip);
    }
  }
}

template <class T>
void multiply_blocks(const Product<T>& product, T* packed_a) {
  const bool column = product.n == 1 && product.panels == nullptr;
  const bool along_depth = product.a_depth == 1 && (product.b_depth == 1 || product.k == 1);
  if (column && along_depth && product.a_row != 1) return multiply_column(product);
  if (column && product.a_row == 1 && product.ldc == 1) return multiply_column_across(product);
  const bool in_place = product.b_column == 1 && product.panels == nullptr;
  if (in_place && product.k <= kShallow && product.n <= static_cast<std::int64_t>(HWY_LANES(T)))
    return multiply_narrow(product);
  const bool thin = in_place && product.m <= kThinRows;
  const bool by_pairs = thin && !product.b_in_place && product.n <= static_cast<std::int64_t>(HWY_LANES(T));
  for (std::int64_t p = 0; p < product.k; p += kBlockDepth) {
    const std::int64_t depth = std::min(kBlockDepth, product.k - p);
    if (by_pairs && product.k - p > kBlockDepth) {
      multiply_thin_pair(product, p, std::min(kBlockDepth, product.k - p - kBlockDepth));
      p += kBlockDepth;
      continue;
    }
    if (thin) {
      multiply_thin(product, p, depth);
      continue;
    }
    if (packed_a == nullptr) {
      multiply_block<T, false>(product, 0, product.m, p, depth, nullptr);
      continue;
    }
    for (std::int64_t row = 0; row < product.m; row += kBlockRows) {
      const std::int64_t rows = std::min(kBlockRows, product.m - row);
      pack_rows(product, row, rows, p, depth, packed_a);
      multiply_block<T, true>(product, row, rows, p, depth, packed_a);
    }
  }
}

void multiply_f32(const Product<float>& product, float* packed_a) { multiply_blocks(product, packed_a); }
void multiply_f64(const Product<double>& product, double* packed_a) { multiply_blocks(product, packed_a); }
void pack_f32(const Product<float>& product, std::int64_t begin, std::int64_t end, float* panels) {
  pack_columns(product, begin, end, panels);
}
void pack_f64(const Product<double>& product, std::int64_t begin, std::int64_t end, double* panels) {
  pack_columns(product, begin, end, panels);
}

}  // namespace thalweg::cpu::builtin::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu::builtin {

HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_f64);
HWY_EXPORT(pack_f32);
HWY_EXPORT(pack_f64);

void multiply(const Product<float>& product, float* packed_a) { HWY_DYNAMIC_DISPATCH(multiply_f32)(product, packed_a); }
void multiply(const Product<double>& product, double* packed_a) {
  HWY_DYNAMIC_DISPATCH(multiply_f64)(product, packed_a);
}

std::int64_t panels_size(std::int64_t n, std::int64_t k) { return round_up(n, 16) * k; }  // whole vectors of any target
void pack_panels(const Product<float>& product, std::int64_t begin, std::int64_t end, float* panels) {
  HWY_DYNAMIC_DISPATCH(pack_f32)(product, begin, end, panels);
}
void pack_panels(const Product<double>& product, std::int64_t begin, std::int64_t end, double* panels) {
  HWY_DYNAMIC_DISPATCH(pack_f64)(product, begin, end, panels);
}

}  // namespace thalweg::cpu::builtin
#endif
