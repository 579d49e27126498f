#pragma once

// An elementwise program over a product a^T b, which stands nowhere as a whole: the update of a variable made of the
// two factors of its gradient.
#include "thalweg/ops/program.h"

namespace thalweg {

inline constexpr std::int64_t deepest_fused_product = 512;  // rows of a and b

// Whether the program over a^T b, of this depth and [m, n], is faster than the product by a library and the program
// after it: where there are few rows, and in f32 up to the deepest where columns are long, so that memory has the time
// to bring what the program reads, and there are so many rows that panels of b and two tiles take less room than the
// product. Adam on a matrix, two threads of a Zen 5, depth 512: [1024, 1024] 2.66 instead of 2.75 ms, [784, 1024] 2.03
// instead of 2.16, [4096, 4096] 39.9 instead of 46.7; depth 256: [4096, 1024] 5.73 instead of 6.34, but [512, 512] 0.37
// instead of 0.32; depth 512: [2048, 512] 2.80 instead of 2.72.
bool fused_product_pays(DType dtype, std::int64_t depth, std::int64_t m, std::int64_t n);

// Whether a^T b is a product of f32 or f64: both matrices, with as many rows.
inline bool are_factors(const Spec& a, const Spec& b) {
  return (a.dtype == f32 || a.dtype == f64) && a.dtype == b.dtype && a.rank() == 2 && b.rank() == 2 &&
         a.shape[0] == b.shape[0];
}

// The program of a `fused` node, whose input `product` is made here. Inputs of the node: a [depth, m] and b [depth, n]
// of f32 or f64, then the program's others, each [m, n] or of one element. An output may stand in the place of one of
// those.
std::shared_ptr<const void> make_fused_product(const void* fused, std::int64_t product);

}  // namespace thalweg
