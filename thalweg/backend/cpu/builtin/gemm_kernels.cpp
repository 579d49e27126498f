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
#include <hwy/highway.h>

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

// Rows of arrays that are to be in the cache when they are read.
template <class T>
struct Fetch {
  std::span<const T* const> arrays = {};
  std::int64_t first = 0, rows = 0, stride = 0;
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

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* p, std::int64_t count) {
  if (count >= static_cast<std::int64_t>(hn::Lanes(d))) return hn::LoadU(d, p);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, p);
#else  // other targets may read past the end
  HWY_ALIGN T lanes[HWY_LANES(T)] = {};
  std::copy_n(p, count, lanes);
  return hn::Load(d, lanes);
#endif
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(hn::Vec<D> v, D d, T* p, std::int64_t count) {
  if (count >= static_cast<std::int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, p);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(count)), d, p);
#else
  HWY_ALIGN T lanes[HWY_LANES(T)];
  hn::Store(v, d, lanes);
  std::copy_n(lanes, count, p);
#endif
}

// Asks for one row. Spread over the depth these requests cost nothing; all at once they would keep the product waiting.
template <class T, int kVectors>
HWY_INLINE void fetch_row(const Fetch<T>& fetch, std::int64_t row) {
  for (const T* array : fetch.arrays)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      __builtin_prefetch(array + fetch.first + row * fetch.stride + v * static_cast<std::int64_t>(HWY_LANES(T)), 0, 2);
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
  for (std::int64_t p = 0; p < s.depth; ++p) {
    if (kFetching && p < s.fetch.rows) fetch_row<T, kVectors>(s.fetch, p);
    hn::Vec<decltype(d)> b[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) b[v] = hn::LoadU(d, panel + v * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (!kPacked && p % 16 == 0) __builtin_prefetch(a + (i + kRows) * s.a_row);  // the next strip's rows
      const auto value = hn::Set(d, kPacked ? a[i] : a[i * s.a_row]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(value, b[v], sums[i][v]);
    }
    a += kPacked ? kRows : s.a_depth;
    panel += s.panel_row;
  }
  for (std::int64_t row = s.depth; kFetching && row < s.fetch.rows; ++row) fetch_row<T, kVectors>(s.fetch, row);
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

// The same for a product of so few rows that B is read once and in place, its rows `stride` apart. Sums have the same
// order: a row's result does not depend on how many there are.
template <class T, int kRows, int kVectors>
void thin_kernel(const Strip<T>& s, std::int64_t stride) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = HWY_LANES(T);
  hn::Vec<decltype(d)> sums[kRows][kVectors];
#pragma GCC unroll 16
  for (auto& row : sums)
#pragma GCC unroll 2
    for (auto& sum : row) sum = hn::Zero(d);
  for (std::int64_t p = 0; p < s.depth; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const auto b = load_first(d, s.panel + p * stride + v * lanes, s.columns - v * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i)
        sums[i][v] = hn::MulAdd(hn::Set(d, s.a[i * s.a_row + p * s.a_depth]), b, sums[i][v]);
    }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      T* c = s.c + i * s.ldc + v * lanes;
      const std::int64_t count = s.columns - v * lanes;
      store_first(s.accumulate ? hn::Add(load_first(d, c, count), sums[i][v]) : sums[i][v], d, c, count);
    }
}

template <class T>
using StripKernel = void (*)(const Strip<T>&);
template <class T>
using ThinKernel = void (*)(const Strip<T>&, std::int64_t stride);

// kernels[r - 1] computes r rows.
template <class T, int kVectors, bool kPacked, bool kFetching = false, std::size_t... kIndex>
constexpr std::array<StripKernel<T>, sizeof...(kIndex)> strip_kernels(std::index_sequence<kIndex...>) {
  return {strip_kernel<T, static_cast<int>(kIndex) + 1, kVectors, kPacked, kFetching>...};
}

template <class T, int kVectors, std::size_t... kIndex>
constexpr std::array<ThinKernel<T>, sizeof...(kIndex)> thin_kernels(std::index_sequence<kIndex...>) {
  return {thin_kernel<T, static_cast<int>(kIndex) + 1, kVectors>...};
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

// Where the panel at (depth p, column j) lies among those of pack_all.
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
void pack_all(const Product<T>& product, T* panels) {
  for (std::int64_t p = 0; p < product.k; p += kBlockDepth) {
    const std::int64_t depth = std::min(kBlockDepth, product.k - p);
    for (std::int64_t j = 0; j < product.n; j += 2 * HWY_LANES(T))
      pack_panel_of(product, p, depth, j, panels + panel_offset(product, p, depth, j));
  }
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
      for (std::int64_t p = 0; p < depth; ++p)
        for (std::int64_t i = 0; i < size; ++i) to[p * size + i] = a[p * product.a_depth + i];
    } else {
      for (std::int64_t i = 0; i < size; ++i)
        for (std::int64_t p = 0; p < depth; ++p) to[p * size + i] = a[i * product.a_row + p * product.a_depth];
    }
  }
}

// Of B read in place: what is multiplied after the panel at (depth_begin, j).
template <class T>
Fetch<T> next_panel(const Product<T>& product, std::int64_t depth_begin, std::int64_t depth, std::int64_t j) {
  const std::int64_t next = j + 2 * HWY_LANES(T), below = depth_begin + depth;
  if (next < product.n) return {{&product.b, 1}, depth_begin * product.b_depth + next, depth, product.b_depth};
  return {{&product.b, 1}, below * product.b_depth, std::min(kBlockDepth, product.k - below), product.b_depth};
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
      if (product.b_in_place && i == 0) strip.fetch = next_panel(product, depth_begin, depth, j);
      if (!product.fetch.empty()) strip.fetch = {product.fetch, begin * product.ldc + j, strips.size(i), product.ldc};
      const auto& kernels = one_vector ? narrow : strip.fetch.arrays.empty() ? wide : fetching;
      kernels[static_cast<std::size_t>(strips.size(i) - 1)](strip);
    }
  }
}

// All of a product of at most kDirectRows rows for one block of the depth.
template <class T>
void multiply_thin(const Product<T>& product, std::int64_t depth_begin, std::int64_t depth) {
  constexpr std::int64_t lanes = HWY_LANES(T);
  constexpr auto narrow = thin_kernels<T, 1>(std::make_index_sequence<kDirectRows>());
  constexpr auto wide = thin_kernels<T, 2>(std::make_index_sequence<kDirectRows>());
  const auto index = static_cast<std::size_t>(product.m - 1);
  for (std::int64_t j = 0; j < product.n; j += 2 * lanes) {
    const std::int64_t columns = std::min(2 * lanes, product.n - j);
    const Strip<T> strip{depth,
                         product.a + depth_begin * product.a_depth,
                         product.a_row,
                         product.a_depth,
                         product.b + depth_begin * product.b_depth + j,
                         product.b_depth,
                         product.c + j,
                         product.ldc,
                         columns,
                         product.accumulate || depth_begin > 0};
    (columns <= lanes ? narrow : wide)[index](strip, product.b_depth);
  }
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

// C (+)= A b, one column: rows of A, four at a time, times b, both read along their depth.
template <class T>
void multiply_column(const Product<T>& product) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t lanes = HWY_LANES(T);
  const std::int64_t whole = product.k / lanes * lanes, rest = product.k - whole;
  const V last = rest > 0 ? load_first(d, product.b + whole, rest) : hn::Zero(d);
  for (std::int64_t row = 0; row < product.m; row += 4) {
    const std::int64_t rows = std::min<std::int64_t>(4, product.m - row);
    const T* a[4];
    for (std::int64_t i = 0; i < 4; ++i) a[i] = product.a + (row + std::min(i, rows - 1)) * product.a_row;
    V products[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (std::int64_t p = 0; p < whole; p += lanes)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        products[i] = hn::MulAdd(hn::LoadU(d, a[i] + p), hn::LoadU(d, product.b + p), products[i]);
    if (rest > 0)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) products[i] = hn::MulAdd(load_first(d, a[i] + whole, rest), last, products[i]);
    if (rows == 4 && product.ldc == 1 && !product.accumulate) {
      sum_lanes(products, product.c + row);
      continue;
    }
    T sums[4];
    sum_lanes(products, sums);
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
  const auto row = [&](std::int64_t i) HWY_ATTR {
    const T* a = product.a + i * product.a_row;
    auto sum = hn::Zero(d);
#pragma GCC unroll 8
    for (int p = 0; p < kDepth; ++p) sum = hn::MulAdd(hn::Set(d, a[p * product.a_depth]), b[p], sum);
    return sum;
  };
  std::int64_t i = 0;
  if (product.ldc == product.n && !product.accumulate)  // whole vectors: the next row overwrites what is too much
    for (; i * product.n + static_cast<std::int64_t>(HWY_LANES(T)) <= product.m * product.n; ++i)
      hn::StoreU(row(i), d, product.c + i * product.n);
  for (; i < product.m; ++i) {
    T* c = product.c + i * product.ldc;
    store_first(product.accumulate ? hn::Add(load_first(d, c, product.n), row(i)) : row(i), d, c, product.n);
  }
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
  for (std::int64_t row = 0; row < product.m; row += lanes) {
    const std::int64_t count = std::min(lanes, product.m - row);
    hn::Vec<decltype(d)> sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    const auto add = [&](int chain, std::int64_t p) HWY_ATTR {
      const auto a = load_first(d, product.a + row + p * product.a_depth, count);
      sums[chain] = hn::MulAdd(hn::Set(d, product.b[p * product.b_depth]), a, sums[chain]);
    };
    std::int64_t p = 0;
    for (; p + 4 <= product.k; p += 4)
#pragma GCC unroll 4
      for (int chain = 0; chain < 4; ++chain) add(chain, p + chain);
    for (; p < product.k; ++p) add(0, p);
    const auto sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
    T* c = product.c + row;
    store_first(product.accumulate ? hn::Add(load_first(d, c, count), sum) : sum, d, c, count);
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
  const bool thin = in_place && product.m <= kDirectRows;
  for (std::int64_t p = 0; p < product.k; p += kBlockDepth) {
    const std::int64_t depth = std::min(kBlockDepth, product.k - p);
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
void pack_f32(const Product<float>& product, float* panels) { pack_all(product, panels); }
void pack_f64(const Product<double>& product, double* panels) { pack_all(product, panels); }

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
void pack_panels(const Product<float>& product, float* panels) { HWY_DYNAMIC_DISPATCH(pack_f32)(product, panels); }
void pack_panels(const Product<double>& product, double* panels) { HWY_DYNAMIC_DISPATCH(pack_f64)(product, panels); }

}  // namespace thalweg::cpu::builtin
#endif
