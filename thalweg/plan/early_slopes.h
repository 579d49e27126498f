#pragma once

#include "thalweg/graph/graph.h"

namespace thalweg {

// The slope of an expensive function is taken where the function is, and stands where its argument stood: what
// both compute, an exponential mostly, is computed once, and of the gradient one factor is left.
//   %2, %3 = fused %0 %1 {add gelu_tanh};  %9 = fused %8 %2 {… tanh …, multiply}
//     become     %2, %3 = fused %0 %1 {add gelu_tanh … tanh …};  %9 = fused %8 %2 {multiply}
// No bit changes. For plans that keep everything: the function could no longer be computed again from its argument.
Graph take_slopes_early(Graph graph);

}  // namespace thalweg
