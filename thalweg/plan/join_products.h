#pragma once

#include "thalweg/graph/graph.h"

namespace thalweg {

// A gradient that is a shallow product and is read by its variable's update alone is computed there, tile by tile, and
// its norm from the factors: it stands nowhere as a whole, and waits for no other gradient.
//   %8 = matmul %x %dy {transpose_a};  %9 = fused_reduce %8 (sum of squares);  %10 = fused %w %8 %scale
//     become     %9 = product_squares %x %dy;  %10 = fused_product %x %dy %w %scale
// Wants nodes in their order, and keeps it.
Graph join_products(Graph graph);

}  // namespace thalweg
