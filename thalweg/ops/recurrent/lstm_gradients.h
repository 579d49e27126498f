#pragma once

// The recurrence by itself, in f32 or f64; gates are i, f, g, o after their sigmoid or tanh.
#include "thalweg/core/tensor.h"

namespace thalweg {

struct LstmSteps {
  Tensor sequence, cells, gates;  // [batch, time, units], the same, [batch, time, 4 units]
};
// z [batch, time, 4 units] is the share of x and the bias.
LstmSteps lstm_steps(const Tensor& z, const Tensor& h, const Tensor& c, const Tensor& recurrent);

struct LstmBackwardOperands {
  Tensor h, c, recurrent, sequence, cells, gates, dsequence, dcells, dgates;  // dgates may be undefined
};
struct LstmGradients {
  Tensor z, h, c, recurrent;
};
LstmGradients lstm_backward(const LstmBackwardOperands& operands);

}  // namespace thalweg
