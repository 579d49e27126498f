#pragma once

// An elementwise program over a product a^T b, which stands nowhere as a whole: the update of a variable made of the
// two factors of its gradient.
#include "thalweg/ops/program.h"

namespace thalweg {

inline constexpr std::int64_t deepest_fused_product = 128;  // rows of a and b

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
