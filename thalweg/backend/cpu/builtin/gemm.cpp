// The built-in provider of products: any dtype, no library.
#include <algorithm>
#include <type_traits>

#include "thalweg/backend/cpu/builtin/gemm_kernels.h"
#include "thalweg/backend/cpu/builtin/gemm_narrow.h"
#include "thalweg/backend/cpu/convert.h"
#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/core/check.h"

namespace thalweg::cpu::builtin {
namespace {

constexpr std::int64_t kBlockColumns = 512;  // of f16 and bf16 products: B and C are widened block by block

template <class T>
Product<T> product_of(const GemmTile& tile, const T* a, const T* b, T* c) {
  Product<T> product{};
  product.m = tile.m, product.n = tile.n, product.k = tile.k;
  product.a = a, product.b = b, product.c = c;
  product.a_row = tile.transpose_a ? 1 : tile.lda, product.a_depth = tile.transpose_a ? tile.lda : 1;
  product.b_depth = tile.transpose_b ? 1 : tile.ldb, product.b_column = tile.transpose_b ? tile.ldb : 1;
  product.ldc = tile.ldc;
  product.accumulate = tile.accumulate;
  return product;
}

template <class T>
void multiply_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch) {
  multiply(product_of(tile, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c)),
           reinterpret_cast<T*>(scratch));
}

// Unsigned arithmetic: overflow wraps instead of being undefined.
template <class T>
void multiply_integers(const Product<T>& product) {
  for (std::int64_t i = 0; i < product.m; ++i) {
    T* c = product.c + i * product.ldc;
    if (!product.accumulate) std::fill_n(c, product.n, T(0));
    for (std::int64_t p = 0; p < product.k; ++p) {
      const T value = product.a[i * product.a_row + p * product.a_depth];
      const T* b = product.b + p * product.b_depth;
      for (std::int64_t j = 0; j < product.n; ++j) c[j] += value * b[j * product.b_column];
    }
  }
}

// The block [rows, columns] of the stored matrix at (row, column), as dense f32.
template <class Small>
void widen(const Small* from, std::int64_t ld, std::int64_t rows, std::int64_t columns, float* to) {
  for (std::int64_t i = 0; i < rows; ++i) cpu::widen(from + i * ld, columns, to + i * columns);
}

// The f32 block of C is rounded once, after the whole depth.
template <class Out>
void narrow(const float* from, std::int64_t rows, std::int64_t columns, Out* to, std::int64_t ld, bool accumulate) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      Out& c = to[i * ld + j];
      c = static_cast<Out>(accumulate ? static_cast<float>(c) + from[i * columns + j] : from[i * columns + j]);
    }
}

template <class Small>
class SmallFloatProduct {
 public:
  static std::size_t scratch_bytes() { return kFloats * sizeof(float); }

  SmallFloatProduct(const GemmTile& tile, const void* a, const void* b, std::byte* scratch)
      : tile_(tile), a_(static_cast<const Small*>(a)), b_(static_cast<const Small*>(b)) {
    packed_ = reinterpret_cast<float*>(scratch);
    a_block_ = packed_ + kBlockRows * kBlockDepth;
    b_block_ = a_block_ + kBlockRows * kBlockDepth;
    c_block_ = b_block_ + kBlockDepth * kBlockColumns;
  }

  template <class Out>
  void run(Out* c) const {
    for (std::int64_t row = 0; row < tile_.m; row += kBlockRows)
      for (std::int64_t column = 0; column < tile_.n; column += kBlockColumns) {
        const std::int64_t rows = std::min(kBlockRows, tile_.m - row);
        const std::int64_t columns = std::min(kBlockColumns, tile_.n - column);
        for (std::int64_t p = 0; p < tile_.k; p += kBlockDepth)
          add_block(row, rows, column, columns, p, std::min(kBlockDepth, tile_.k - p));
        narrow(c_block_, rows, columns, c + row * tile_.ldc + column, tile_.ldc, tile_.accumulate);
      }
  }

 private:
  static constexpr std::int64_t kFloats =
      2 * kBlockRows * kBlockDepth + kBlockDepth * kBlockColumns + kBlockRows * kBlockColumns;

  void add_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, std::int64_t p,
                 std::int64_t depth) const {
    GemmTile block = tile_;
    block.m = rows, block.n = columns, block.k = depth;
    block.lda = tile_.transpose_a ? rows : depth;
    block.ldb = tile_.transpose_b ? depth : columns;
    block.ldc = columns;
    block.accumulate = p > 0;
    if (tile_.transpose_a) {
      widen(a_ + p * tile_.lda + row, tile_.lda, depth, rows, a_block_);
    } else {
      widen(a_ + row * tile_.lda + p, tile_.lda, rows, depth, a_block_);
    }
    if (tile_.transpose_b) {
      widen(b_ + column * tile_.ldb + p, tile_.ldb, columns, depth, b_block_);
    } else {
      widen(b_ + p * tile_.ldb + column, tile_.ldb, depth, columns, b_block_);
    }
    multiply(product_of<float>(block, a_block_, b_block_, c_block_), packed_);
  }

  const GemmTile& tile_;
  const Small* a_;
  const Small* b_;
  float *packed_, *a_block_, *b_block_, *c_block_;
};

template <class Small>
void multiply_small_floats(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch) {
  const SmallFloatProduct<Small> product(tile, a, b, scratch);
  if (tile.out == DType::f32) {
    product.run(static_cast<float*>(c));
  } else {
    product.run(static_cast<Small*>(c));
  }
}

}  // namespace

std::size_t gemm_scratch(const GemmTile& tile) {
  switch (tile.dtype) {
    case DType::f32: return kBlockRows * kBlockDepth * sizeof(float);
    case DType::f64: return kBlockRows * kBlockDepth * sizeof(double);
    case DType::f16: return SmallFloatProduct<Half>::scratch_bytes();
    case DType::bf16: return SmallFloatProduct<BFloat16>::scratch_bytes();
    default: return 0;
  }
}

void gemm_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch) {
  switch (tile.dtype) {
    case DType::f32: return multiply_tile<float>(tile, a, b, c, scratch);
    case DType::f64: return multiply_tile<double>(tile, a, b, c, scratch);
    case DType::f16: return multiply_small_floats<Half>(tile, a, b, c, scratch);
    case DType::bf16: return multiply_small_floats<BFloat16>(tile, a, b, c, scratch);
    case DType::i32:
      return multiply_integers(product_of(tile, static_cast<const std::uint32_t*>(a),
                                          static_cast<const std::uint32_t*>(b), static_cast<std::uint32_t*>(c)));
    case DType::i64:
      return multiply_integers(product_of(tile, static_cast<const std::uint64_t*>(a),
                                          static_cast<const std::uint64_t*>(b), static_cast<std::uint64_t*>(c)));
    default: TW_FAIL(unimplemented, "gemm", "cast the operands to a number type first", "no products of u8 or boolean");
  }
}

std::size_t thin_scratch(const GemmTile& tile) {
  return static_cast<std::size_t>(tile.m * std::min(tile.k, kBlockDepth)) * sizeof(float);
}

void thin_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch) {
  auto product = product_of(tile, static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(c));
  product.b_in_place = true;
  multiply(product, reinterpret_cast<float*>(scratch));
}

std::size_t narrow_scratch(const GemmTile& tile) {
  return static_cast<std::size_t>(narrow_scratch(product_of<float>(tile, nullptr, nullptr, nullptr)) *
                                  size_of(tile.dtype));
}

void narrow_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch) {
  const auto run = [&]<class T>(TypeTag<T>) {
    multiply_narrow(product_of(tile, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c)),
                    reinterpret_cast<T*>(scratch));
  };
  tile.dtype == DType::f64 ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

}  // namespace thalweg::cpu::builtin
