#pragma once

// What lstm and gru share: their operands, checked, in one dtype.
#include "thalweg/core/tensor.h"

namespace thalweg {

struct RecurrentOperands {
  const char* op;
  int gates;  // 4 for lstm, 3 for gru
  Tensor x, h, kernel, recurrent;
};

// Throws unless x [batch, time, in], h [batch, units], kernel [in, gates * units] and recurrent [units, gates * units].
void check_recurrent(const RecurrentOperands& operands);

// x kernel + bias for all steps at once, in the order in which they are processed: [batch, time, gates * units].
Tensor input_products(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool go_backwards);

// [batch, time, n] at one time: [batch, n].
Tensor step_of(const Tensor& sequence, std::int64_t t);

}  // namespace thalweg
