#pragma once

#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

// Names of axes, one per axis; equal names in two tensors mean the same index.
using Labels = std::vector<int>;

struct Labelled {
  Tensor x;
  Labels labels;  // no name twice
};

// x summed over the axes that `kept` lacks.
Labelled sum_over_others(const Labelled& x, const Labels& kept);
// The same axes in another order.
Tensor arranged(const Labelled& x, const Labels& order);
// a times b, summed over the labels of both that `kept` lacks: one matrix product. Equal labels have equal sizes.
Labelled contract(const Labelled& a, const Labelled& b, const Labels& kept);

}  // namespace thalweg
