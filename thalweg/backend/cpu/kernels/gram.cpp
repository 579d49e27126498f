#include "thalweg/backend/cpu/kernels/gram.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <type_traits>

#include "thalweg/backend/cpu/builtin/gemm_kernels.h"
#include "thalweg/backend/cpu/slots.h"
#include "thalweg/backend/cpu/targets.h"

// What all targets share is declared once.
#ifndef THALWEG_CPU_GRAM_ROWS
#define THALWEG_CPU_GRAM_ROWS
namespace thalweg::cpu {
namespace {
constexpr std::int64_t kBlock = 4;  // rows of a block of products: sixteen sums stay in registers

struct Rows {
  const double* data;
  std::int64_t rows, columns, stride;  // rows and columns: whole blocks and vectors, padded with zeros
};

struct FloatRows {
  const float* data;
  std::int64_t rows, columns, stride;  // as they are
};
}  // namespace
}  // namespace thalweg::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/gram.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/builtin/gemm_thin-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Adds the products of rows i … i + 3 and j … j + 3 of x to to[i, j].
void multiply_rows(const Rows& x, std::int64_t i, std::int64_t j, double* to) {
  const hn::ScalableTag<double> d;
  hn::Vec<decltype(d)> sums[kBlock][kBlock];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(d);
  for (std::int64_t p = 0; p < x.columns; p += static_cast<std::int64_t>(HWY_LANES(double))) {
    hn::Vec<decltype(d)> right[kBlock];
#pragma GCC unroll 4
    for (std::int64_t c = 0; c < kBlock; ++c) right[c] = hn::Load(d, x.data + (j + c) * x.stride + p);
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < kBlock; ++r) {
      const auto left = hn::Load(d, x.data + (i + r) * x.stride + p);
#pragma GCC unroll 4
      for (std::int64_t c = 0; c < kBlock; ++c) sums[r][c] = hn::MulAdd(left, right[c], sums[r][c]);
    }
  }
  for (std::int64_t r = 0; r < kBlock; ++r)
    for (std::int64_t c = 0; c < kBlock; ++c)
      to[(i + r) * x.rows + j + c] += hn::GetLane(hn::SumOfLanes(d, sums[r][c]));
}

void widen(const float* from, std::int64_t count, double* to) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(hn::Lanes(d)) <= count; i += static_cast<std::int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, from + i)), d, to + i);
  for (; i < count; ++i) to[i] = static_cast<double>(from[i]);
}

// Adds the products of the rows of x on and below the diagonal of blocks.
void add_products(const Rows& x, double* to) {
  for (std::int64_t i = 0; i < x.rows; i += kBlock)
    for (std::int64_t j = 0; j <= i; j += kBlock) multiply_rows(x, i, j, to);
}

// The same in f32, of rows that may be fewer than whole blocks: those that are missing are computed as the last.
void multiply_float_rows(const FloatRows& x, std::int64_t i, std::int64_t j, float* to) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t lanes = HWY_LANES(float);
  hn::Vec<decltype(d)> sums[kBlock][kBlock];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(d);
  const float *left[kBlock], *right[kBlock];
  for (std::int64_t r = 0; r < kBlock; ++r) {
    left[r] = x.data + std::min(i + r, x.rows - 1) * x.stride;
    right[r] = x.data + std::min(j + r, x.rows - 1) * x.stride;
  }
  const auto add = [&](auto load) HWY_ATTR {
    hn::Vec<decltype(d)> b[kBlock];
#pragma GCC unroll 4
    for (std::int64_t c = 0; c < kBlock; ++c) b[c] = load(right[c]);
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < kBlock; ++r) {
      const auto a = load(left[r]);
#pragma GCC unroll 4
      for (std::int64_t c = 0; c < kBlock; ++c) sums[r][c] = hn::MulAdd(a, b[c], sums[r][c]);
    }
  };
  std::int64_t p = 0;
  for (; p + lanes <= x.columns; p += lanes) add([&](const float* row) HWY_ATTR { return hn::LoadU(d, row + p); });
  if (const std::int64_t rest = x.columns - p; rest > 0)
    add([&](const float* row) HWY_ATTR { return builtin::HWY_NAMESPACE::load_first(d, row + p, rest); });
#pragma GCC unroll 4
  for (std::int64_t r = 0; r < kBlock; ++r) builtin::HWY_NAMESPACE::sum_lanes<float>(sums[r], to + r * kBlock);
}

// The products of the rows of x on and below the diagonal of blocks -> to [padded, padded].
void float_products(const FloatRows& x, std::int64_t padded, double* to) {
  for (std::int64_t i = 0; i < x.rows; i += kBlock)
    for (std::int64_t j = 0; j <= i; j += kBlock) {
      float found[kBlock * kBlock];
      multiply_float_rows(x, i, j, found);
      for (std::int64_t r = 0; r < kBlock; ++r)
        for (std::int64_t c = 0; c < kBlock; ++c)
          to[(i + r) * padded + j + c] =
              i + r < x.rows && j + c < x.rows ? static_cast<double>(found[r * kBlock + c]) : 0.0;
    }
}

}  // namespace
}  // namespace thalweg::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {
namespace {

HWY_EXPORT(add_products);
HWY_EXPORT(float_products);
HWY_EXPORT(widen);

void widen(const float* from, std::int64_t count, double* to) { HWY_DYNAMIC_DISPATCH(widen)(from, count, to); }
void widen(const double* from, std::int64_t count, double* to) { std::copy_n(from, count, to); }

constexpr std::int64_t kColumns = 512;   // that are widened at a time: with 32 rows they stay in the second-level cache
constexpr std::int64_t kMaxRanges = 16;  // of a factor's columns: as many sets of products are held
constexpr std::int64_t kTileRows = 32, kTileColumns = 128;  // of elements

// The same sum from the product's elements, of which there is a tile at a time. Those that are not finite decide
// between infinity and NaN, and those that rows which cancel each other leave are the ones that a variable is updated
// with.
class SquaresOfElements {
 public:
  static constexpr std::int64_t kTile = kTileRows * kTileColumns;

  explicit SquaresOfElements(std::int64_t m)
      : rows_(std::max(kTileRows, round_up(ceil_div(m, kMaxRanges), kTileRows))), m_(m) {}

  // In a workspace for as many tasks or more; each one's sum is left in the shared part.
  template <class T>
  double run(const Factors<T>& factors, WorkspaceLayout layout, std::span<std::byte> workspace) const {
    auto* sums = reinterpret_cast<double*>(workspace.data());
    layout.tasks = ceil_div(m_, rows_);
    run_in_slots(layout, workspace, [&](std::int64_t task, std::byte* slot) {
      double sum = 0;
      for (std::int64_t i = task * rows_; i < std::min((task + 1) * rows_, m_); i += kTileRows)
        for (std::int64_t j = 0; j < factors.n; j += kTileColumns)
          sum += tile(factors, i, j, reinterpret_cast<T*>(slot));
      sums[task] = sum;
    });
    return std::accumulate(sums, sums + layout.tasks, 0.0);
  }

 private:
  template <class T>
  static double tile(const Factors<T>& factors, std::int64_t i, std::int64_t j, T* elements) {
    builtin::Product<T> product{};
    product.m = std::min(kTileRows, factors.m - i), product.n = std::min(kTileColumns, factors.n - j);
    product.k = factors.depth;
    product.a = factors.a + i, product.a_row = 1, product.a_depth = factors.m;
    product.b = factors.b + j, product.b_depth = factors.n, product.b_column = 1;
    product.c = elements, product.ldc = product.n;
    builtin::multiply(product, nullptr);
    double sums[4] = {};  // one would wait for itself
    for (std::int64_t k = 0; k < product.m * product.n; ++k)
      sums[k % 4] += static_cast<double>(elements[k]) * static_cast<double>(elements[k]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  std::int64_t rows_, m_;
};

// Where rows cancel each other the sum is far smaller than its terms: below this share of them too few digits are left.
template <class T>
constexpr double kLeastShare = sizeof(T) == sizeof(double) ? 0x1p-10 : 0x1p-24;

struct Sum {
  double value, terms;  // terms: the sum of their magnitudes
  double own;           // of rows by themselves: what it is where they are orthogonal
};

// In f32 a product of two rows has an error of some 2^-24 of their lengths; by chance these add up to as much of `own`.
// So six digits of the sum of squares are right, as many as a sum of f32 has, unless rows cancel each other.
constexpr double kLeastOfOwn = 0.125;
constexpr double kLeastFloatSquare = 0x1p-90;  // of a row: products of its elements are no denormals, which count for 0

// Columns of A, then those of B, in ranges; each range's products of rows lie beside the others'.
class Gram {
 public:
  Gram(std::int64_t depth, std::int64_t m, std::int64_t n)
      : depth_(depth), rows_(round_up(depth, kBlock)), ranges_a_(ranges(m)), ranges_b_(ranges(n)) {
    const std::int64_t widest = round_up(std::max(ceil_div(m, ranges_a_), ceil_div(n, ranges_b_)), 8);
    stride_ = std::min(kColumns, widest) + 8;  // rows 4 KiB apart would share a set of the first-level cache
    layout_.tasks = ranges_a_ + ranges_b_;
    layout_.shared_bytes = bytes(layout_.tasks * rows_ * rows_);
    layout_.slot_bytes = bytes(std::max(rows_ * stride_, SquaresOfElements::kTile));
  }

  const WorkspaceLayout& layout() const { return layout_; }

  template <class T>
  Sum run(const Factors<T>& factors, std::span<std::byte> workspace) const {
    return with_ranges(factors, workspace,
                       [&](const Matrix<T>& x, std::int64_t begin, std::int64_t end, std::byte* slot,
                           double* products) { add_range(x, begin, end, reinterpret_cast<double*>(slot), products); });
  }

  // In f32: nothing where that is too little.
  std::optional<double> run_in_floats(const Factors<float>& factors, std::span<std::byte> workspace) const {
    const Sum sum = with_ranges(
        factors, workspace,
        [&](const Matrix<float>& x, std::int64_t begin, std::int64_t end, std::byte*, double* products) {
          HWY_DYNAMIC_DISPATCH(float_products)({x.data + begin, depth_, end - begin, x.columns}, rows_, products);
        });
    const auto* products = reinterpret_cast<const double*>(workspace.data());
    const bool holds = std::isfinite(sum.value) && sum.value >= kLeastOfOwn * sum.own &&
                       has_usual_rows(Matrix<float>{factors.a, factors.m}, products, 0, ranges_a_) &&
                       has_usual_rows(Matrix<float>{factors.b, factors.n}, products, ranges_a_, ranges_b_);
    return holds ? std::optional(sum.value) : std::nullopt;
  }

 private:
  template <class T>
  struct Matrix {
    const T* data;
    std::int64_t columns;
  };

  static std::int64_t ranges(std::int64_t columns) {
    return std::clamp<std::int64_t>(ceil_div(columns, kColumns), 1, kMaxRanges);
  }
  static std::size_t bytes(std::int64_t doubles) {
    return align_up(static_cast<std::size_t>(doubles) * sizeof(double));
  }

  // find(matrix, begin, end, slot, products) for each range of columns, then the sum over all products of rows.
  template <class T, class Find>
  Sum with_ranges(const Factors<T>& factors, std::span<std::byte> workspace, Find find) const {
    auto* products = reinterpret_cast<double*>(workspace.data());
    run_in_slots(layout_, workspace, [&](std::int64_t task, std::byte* slot) {
      const bool of_a = task < ranges_a_;
      const Matrix<T> x = of_a ? Matrix<T>{factors.a, factors.m} : Matrix<T>{factors.b, factors.n};
      const std::int64_t range = of_a ? task : task - ranges_a_, count = of_a ? ranges_a_ : ranges_b_;
      const std::int64_t width = ceil_div(x.columns, count);
      find(x, range * width, std::min((range + 1) * width, x.columns), slot, products + task * rows_ * rows_);
    });
    return combine(products);
  }

  double sum_of_ranges(const double* products, std::int64_t i, std::int64_t j, std::int64_t first,
                       std::int64_t count) const {
    double all = 0;
    for (std::int64_t k = first; k < first + count; ++k) all += products[(k * rows_ + i) * rows_ + j];
    return all;
  }

  // Every row is 0 or long enough.
  bool has_usual_rows(const Matrix<float>& x, const double* products, std::int64_t first, std::int64_t count) const {
    for (std::int64_t i = 0; i < depth_; ++i) {
      if (sum_of_ranges(products, i, i, first, count) >= kLeastFloatSquare) continue;
      const float* row = x.data + i * x.columns;
      if (std::any_of(row, row + x.columns, [](float value) { return value != 0; })) return false;
    }
    return true;
  }

  // The products of rows of columns [begin, end).
  template <class T>
  void add_range(const Matrix<T>& x, std::int64_t begin, std::int64_t end, double* wide, double* products) const {
    std::fill_n(products, rows_ * rows_, 0.0);
    for (; begin < end; begin += kColumns) {
      const std::int64_t columns = std::min(kColumns, end - begin), padded = round_up(columns, 8);
      for (std::int64_t row = 0; row < depth_; ++row) {
        widen(x.data + row * x.columns + begin, columns, wide + row * stride_);
        std::fill(wide + row * stride_ + columns, wide + row * stride_ + padded, 0.0);
      }
      std::fill(wide + depth_ * stride_, wide + rows_ * stride_, 0.0);
      HWY_DYNAMIC_DISPATCH(add_products)({wide, rows_, padded, stride_}, products);
    }
  }

  // Blocks below the diagonal stand for those above it too.
  Sum combine(const double* products) const {
    Sum total{0, 0, 0};
    for (std::int64_t i = 0; i < rows_; ++i)
      for (std::int64_t j = 0; j < (i / kBlock + 1) * kBlock; ++j) {
        const double both =
            sum_of_ranges(products, i, j, 0, ranges_a_) * sum_of_ranges(products, i, j, ranges_a_, ranges_b_);
        const double term = i / kBlock == j / kBlock ? both : 2 * both;
        total.value += term, total.terms += std::abs(term);
        if (i == j) total.own += both;
      }
    return total;
  }

  std::int64_t depth_, rows_, ranges_a_, ranges_b_, stride_;
  WorkspaceLayout layout_;
};

template <class T>
double squares(const Factors<T>& factors, std::span<std::byte> workspace) {
  const Gram gram(factors.depth, factors.m, factors.n);
  if constexpr (std::is_same_v<T, float>)
    if (const auto sum = gram.run_in_floats(factors, workspace)) return *sum;
  const Sum sum = gram.run(factors, workspace);
  if (std::isfinite(sum.value) && sum.value >= kLeastShare<T> * sum.terms) return sum.value;
  return SquaresOfElements(factors.m).run(factors, gram.layout(), workspace);
}

}  // namespace

std::size_t squares_workspace(std::int64_t depth, std::int64_t m, std::int64_t n) {
  return Gram(depth, m, n).layout().bytes();
}

double sum_of_squares(const Factors<float>& factors, std::span<std::byte> workspace) {
  return squares(factors, workspace);
}
double sum_of_squares(const Factors<double>& factors, std::span<std::byte> workspace) {
  return squares(factors, workspace);
}

}  // namespace thalweg::cpu
#endif
