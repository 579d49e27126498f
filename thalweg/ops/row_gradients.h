#pragma once

// Derivatives of the rows: as one fused program each (the usual backward pass) and in public ops (when another tape
// records the backward pass).
#include "thalweg/ops/program.h"

namespace thalweg {

// What a derivative can read: the row's inputs x z a, its result y, and dy.
enum class RowValue : int { x, z, a, y, dy };

// d row / d input for a set of inputs at once.
struct RowGradient {
  Program program;              // outputs: one for each input that has a gradient and is wanted, in order
  std::vector<RowValue> reads;  // what the program's inputs are
  std::vector<int> inputs;      // which row input each output belongs to
};

GradientKind gradient_kind(Row row);

// Cached for ever: a row has at most eight sets of wanted inputs.
const RowGradient& row_gradient(Row row, Needs needs);

// The same as public ops; undefined for `none`. values: x, z, a, y, dy, those that the derivative reads.
Tensor row_gradient_as_ops(Row row, int input, const Tensor (&values)[5]);

}  // namespace thalweg
