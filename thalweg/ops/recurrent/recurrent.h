#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct Lstm {
  bool go_backwards = false;  // the last time step first; the sequence is then in the order of processing
};
struct LstmResult {
  Tensor sequence, h, c;  // h after every step [batch, time, units], and the last h and c
};
// Long short-term memory. With z = x kernel + h recurrent + bias cut into i, f, g, o:
//   c' = sigmoid(f) c + sigmoid(i) tanh(g)   h' = sigmoid(o) tanh(c')
//   x [batch, time, in]   h, c [batch, units]   kernel [in, 4 units]   recurrent [units, 4 units]   bias [4 units]
TW_API LstmResult lstm(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& kernel, const Tensor& recurrent,
                       const Tensor& bias, const Lstm& options = {});

struct LstmState {
  Tensor h, c;
};
// One step of it: x [batch, in].
TW_API LstmState lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& kernel,
                           const Tensor& recurrent, const Tensor& bias);

struct Gru {
  bool reset_after = true;    // the reset gate acts on h recurrent + bias, not on h
  bool go_backwards = false;  // as in Lstm
};
struct GruResult {
  Tensor sequence, h;
};
// Gated recurrent unit. With x kernel + h recurrent + bias cut into z, r, n:
//   h' = sigmoid(z) h + (1 - sigmoid(z)) tanh(n), where r weighs the share of h in n
//   x [batch, time, in]   h [batch, units]   kernel [in, 3 units]   recurrent [units, 3 units]
//   bias [2, 3 units] (of x and of h) if reset_after, else [3 units]
TW_API GruResult gru(const Tensor& x, const Tensor& h, const Tensor& kernel, const Tensor& recurrent,
                     const Tensor& bias, const Gru& options = {});

struct GruCell {
  bool reset_after = true;
};
// One step of it, x [batch, in]: the next h.
TW_API Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& kernel, const Tensor& recurrent,
                       const Tensor& bias, const GruCell& options = {});

}  // namespace thalweg
