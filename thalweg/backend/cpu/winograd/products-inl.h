// Register-tiled products over the layouts of kernels.h. Included once per target.
#if defined(THALWEG_CPU_WINOGRAD_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_WINOGRAD_PRODUCTS_INL_H
#undef THALWEG_CPU_WINOGRAD_PRODUCTS_INL_H
#else
#define THALWEG_CPU_WINOGRAD_PRODUCTS_INL_H
#endif

#include <array>

#include "thalweg/backend/cpu/winograd/problem.h"
#include "thalweg/backend/cpu/winograd/transforms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::winograd {
namespace HWY_NAMESPACE {

// Sums of a strip, two vectors wide, fill the registers beside two vectors and a broadcast: 28 of 32 with AVX-512, 12
// of 16 otherwise. Gradients have whole blocks of 16 rows.
constexpr int kRows = HWY_CAP_GE512 ? 14 : 6;
constexpr int kGradientRows = HWY_CAP_GE512 ? 8 : 4;
constexpr int kColumns = 2 * kLanes;
static_assert(kBlock % kLanes == 0 && kPanel % kColumns == 0);

// out [kStripRows, kVectors vectors] = a b, with a [depth / 16][kStripRows][16] and b [depth], its rows `stride`
// floats apart. out has blocks [kStripRows][16].
template <int kStripRows, int kVectors>
void strip_product(std::int64_t depth, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t stride,
                   float* HWY_RESTRICT out) {
  Vector sums[kStripRows * kVectors];
  unroll<kStripRows * kVectors>([&](auto i) THALWEG_INLINE_LAMBDA { sums[i] = hn::Zero(Floats()); });
  for (std::int64_t c = 0; c < depth; c += kBlock, a += kStripRows * kBlock)
#pragma GCC unroll 4
    for (int lane = 0; lane < kBlock; ++lane, b += stride) {
      Vector column[kVectors];
      unroll<kVectors>([&](auto v) THALWEG_INLINE_LAMBDA { column[v] = load(b + v * kLanes); });
      unroll<kStripRows>([&](auto i) THALWEG_INLINE_LAMBDA {
        const Vector value = all(a[i * kBlock + lane]);
        unroll<kVectors>([&](auto v) THALWEG_INLINE_LAMBDA {
          sums[i * kVectors + v] = hn::MulAdd(value, column[v], sums[i * kVectors + v]);
        });
      });
    }
  unroll<kStripRows * kVectors>([&](auto i) THALWEG_INLINE_LAMBDA {
    constexpr std::int64_t row = i / kVectors, column = i % kVectors * kLanes;
    store(sums[i], out + (column / kBlock * kStripRows + row) * kBlock + column % kBlock);
  });
}

using StripProduct = void (*)(std::int64_t, const float*, const float*, std::int64_t, float*);

// [r - 1] computes r rows.
template <int kVectors, int... kIndex>
constexpr std::array<StripProduct, kRows> strip_products(std::integer_sequence<int, kIndex...>) {
  return {strip_product<kIndex + 1, kVectors>...};
}

// A panel of 16 columns is one vector with AVX-512.
HWY_INLINE StripProduct strip_product_of(std::int64_t rows, std::int64_t width) {
  constexpr auto wide = strip_products<2>(std::make_integer_sequence<int, kRows>{});
  constexpr auto narrow = strip_products<1>(std::make_integer_sequence<int, kRows>{});
  return (width < kColumns ? narrow : wide)[static_cast<std::size_t>(rows - 1)];
}

// out [kGradientRows, kVectors vectors] (+)= at b over tiles, with at [tiles][16] and the rows of b and out `stride`
// floats apart. The sum of a block is added at its end: short sums keep rounding errors small.
template <int kVectors>
void gradient_product(std::int64_t tiles, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t stride,
                      bool add, float* HWY_RESTRICT out) {
  Vector sums[kGradientRows * kVectors];
  unroll<kGradientRows * kVectors>([&](auto i) THALWEG_INLINE_LAMBDA { sums[i] = hn::Zero(Floats()); });
#pragma GCC unroll 4
  for (std::int64_t tile = 0; tile < tiles; ++tile, a += kBlock, b += stride) {
    Vector column[kVectors];
    unroll<kVectors>([&](auto v) THALWEG_INLINE_LAMBDA { column[v] = load(b + v * kLanes); });
    unroll<kGradientRows>([&](auto i) THALWEG_INLINE_LAMBDA {
      const Vector value = all(a[i]);
      unroll<kVectors>([&](auto v) THALWEG_INLINE_LAMBDA {
        sums[i * kVectors + v] = hn::MulAdd(value, column[v], sums[i * kVectors + v]);
      });
    });
  }
  unroll<kGradientRows * kVectors>([&](auto i) THALWEG_INLINE_LAMBDA {
    float* to = out + i / kVectors * stride + i % kVectors * kLanes;
    store(add ? hn::Add(load(to), sums[i]) : sums[i], to);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu::winograd
HWY_AFTER_NAMESPACE();

#endif  // per target
