#include "thalweg/backend/cpu/kernels/gram.h"

#include <algorithm>
#include <cmath>

#include "thalweg/backend/cpu/slots.h"
#include "thalweg/backend/cpu/targets.h"

// What all targets share is declared once.
#ifndef THALWEG_CPU_GRAM_ROWS
#define THALWEG_CPU_GRAM_ROWS
namespace thalweg::cpu {
namespace {
struct Rows {
  const double* data;
  std::int64_t rows, columns, stride;  // rows and columns: whole blocks and vectors, padded with zeros
};
}  // namespace
}  // namespace thalweg::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/gram.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kRows = 4;  // of a block of products: sixteen sums stay in registers

// Adds the products of rows i … i + 3 and j … j + 3 of x to to[i, j].
void multiply_rows(const Rows& x, std::int64_t i, std::int64_t j, double* to) {
  const hn::ScalableTag<double> d;
  hn::Vec<decltype(d)> sums[kRows][kRows];
  for (auto& row : sums)
    for (auto& sum : row) sum = hn::Zero(d);
  for (std::int64_t p = 0; p < x.columns; p += static_cast<std::int64_t>(HWY_LANES(double))) {
    hn::Vec<decltype(d)> right[kRows];
#pragma GCC unroll 4
    for (int c = 0; c < kRows; ++c) right[c] = hn::Load(d, x.data + (j + c) * x.stride + p);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto left = hn::Load(d, x.data + (i + r) * x.stride + p);
#pragma GCC unroll 4
      for (int c = 0; c < kRows; ++c) sums[r][c] = hn::MulAdd(left, right[c], sums[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kRows; ++c) to[(i + r) * x.rows + j + c] += hn::GetLane(hn::SumOfLanes(d, sums[r][c]));
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
  for (std::int64_t i = 0; i < x.rows; i += kRows)
    for (std::int64_t j = 0; j <= i; j += kRows) multiply_rows(x, i, j, to);
}

}  // namespace
}  // namespace thalweg::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {
namespace {

HWY_EXPORT(add_products);
HWY_EXPORT(widen);

void widen(const float* from, std::int64_t count, double* to) { HWY_DYNAMIC_DISPATCH(widen)(from, count, to); }
void widen(const double* from, std::int64_t count, double* to) { std::copy_n(from, count, to); }

constexpr std::int64_t kBlock = 4;      // rows of a block of products
constexpr std::int64_t kColumns = 512;  // that are widened at a time: with 32 rows they stay in the second-level cache
constexpr std::int64_t kStride = kColumns + 8;  // rows 4 KiB apart would share a set of the first-level cache
constexpr std::int64_t kMaxRanges = 16;         // of a factor's columns: as many sets of products are held

// Columns of A, then those of B, in ranges; each range's products of rows lie beside the others'.
class Gram {
 public:
  Gram(std::int64_t depth, std::int64_t m, std::int64_t n)
      : depth_(depth), rows_(round_up(depth, kBlock)), ranges_a_(ranges(m)), ranges_b_(ranges(n)) {
    layout_.tasks = ranges_a_ + ranges_b_;
    layout_.shared_bytes = bytes(layout_.tasks * rows_ * rows_);
    layout_.slot_bytes = bytes(rows_ * kStride);
  }

  const WorkspaceLayout& layout() const { return layout_; }

  template <class T>
  double run(const Factors<T>& factors, std::span<std::byte> workspace) const {
    auto* products = reinterpret_cast<double*>(workspace.data());
    run_in_slots(layout_, workspace, [&](std::int64_t task, std::byte* slot) {
      const bool of_a = task < ranges_a_;
      const Matrix<T> x = of_a ? Matrix<T>{factors.a, factors.m} : Matrix<T>{factors.b, factors.n};
      const std::int64_t range = of_a ? task : task - ranges_a_, count = of_a ? ranges_a_ : ranges_b_;
      const std::int64_t width = ceil_div(x.columns, count);
      add_range(x, range * width, std::min((range + 1) * width, x.columns), reinterpret_cast<double*>(slot),
                products + task * rows_ * rows_);
    });
    return combine(products);
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

  // The products of rows of columns [begin, end).
  template <class T>
  void add_range(const Matrix<T>& x, std::int64_t begin, std::int64_t end, double* wide, double* products) const {
    std::fill_n(products, rows_ * rows_, 0.0);
    for (; begin < end; begin += kColumns) {
      const std::int64_t columns = std::min(kColumns, end - begin), padded = round_up(columns, 8);
      for (std::int64_t row = 0; row < depth_; ++row) {
        widen(x.data + row * x.columns + begin, columns, wide + row * kStride);
        std::fill(wide + row * kStride + columns, wide + row * kStride + padded, 0.0);
      }
      std::fill(wide + depth_ * kStride, wide + rows_ * kStride, 0.0);
      HWY_DYNAMIC_DISPATCH(add_products)({wide, rows_, padded, kStride}, products);
    }
  }

  // Blocks below the diagonal stand for those above it too.
  double combine(const double* products) const {
    double total = 0;
    for (std::int64_t i = 0; i < rows_; ++i)
      for (std::int64_t j = 0; j < (i / kBlock + 1) * kBlock; ++j) {
        const auto sum = [&](std::int64_t first, std::int64_t count) {
          double all = 0;
          for (std::int64_t k = first; k < first + count; ++k) all += products[(k * rows_ + i) * rows_ + j];
          return all;
        };
        const double both = sum(0, ranges_a_) * sum(ranges_a_, ranges_b_);
        total += i / kBlock == j / kBlock ? both : 2 * both;
      }
    return total;
  }

  std::int64_t depth_, rows_, ranges_a_, ranges_b_;
  WorkspaceLayout layout_;
};

// Where a factor is not finite, single elements of the product decide between infinity and NaN.
template <class T>
double squares_of_elements(const Factors<T>& factors) {
  double total = 0;
  for (std::int64_t i = 0; i < factors.m; ++i)
    for (std::int64_t j = 0; j < factors.n; ++j) {
      double element = 0;
      for (std::int64_t p = 0; p < factors.depth; ++p)
        element +=
            static_cast<double>(factors.a[p * factors.m + i]) * static_cast<double>(factors.b[p * factors.n + j]);
      total += element * element;
    }
  return total;
}

template <class T>
double squares(const Factors<T>& factors, std::span<std::byte> workspace) {
  const double total = Gram(factors.depth, factors.m, factors.n).run(factors, workspace);
  return std::isfinite(total) ? total : squares_of_elements(factors);
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
