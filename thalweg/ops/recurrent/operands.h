#pragma once

// What lstm and gru share: their operands, checked, in one dtype and with time first.
#include "thalweg/core/tensor.h"

namespace thalweg {

struct RecurrentOperands {
  const char* op;
  int gates;  // 4 for lstm, 3 for gru
  Tensor x, h, kernel, recurrent;
};

// Throws unless x [batch, time, in], h [batch, units], kernel [in, gates * units] and recurrent [units, gates * units].
void check_recurrent(const RecurrentOperands& operands);

// x kernel + bias for all steps at once, in the order in which they are processed: [time, batch, gates * units].
// Time comes first only after the product, so that the steps of an example lie together in the kernel's gradient.
Tensor input_products(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool go_backwards);

// Entry t of the leading axis, without that axis.
Tensor step_of(const Tensor& sequence, std::int64_t t);

// [time, batch, …] to [batch, time, …] and back.
Tensor swap_time(const Tensor& x);

}  // namespace thalweg
