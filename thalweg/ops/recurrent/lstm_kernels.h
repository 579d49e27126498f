#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thalweg/core/dtype.h"

namespace thalweg {

struct LstmShape {
  DType dtype;  // f32 or f64
  std::int64_t time, batch, units;
};

// Pointers are of T = float or double. gates are i, f, g, o after their sigmoid or tanh.
template <class T>
struct LstmForward {
  const T* z;          // [batch, time, 4 units]: the share of x and the bias
  const T* h;          // [batch, units]
  const T* c;          // [batch, units]
  const T* recurrent;  // [units, 4 units]
  T* sequence;         // [batch, time, units]: h after every step
  T* cells;            // [batch, time, units]: c after every step
  T* gates;            // [batch, time, 4 units]
};

template <class T>
struct LstmBackward {
  const T *h, *c, *recurrent, *sequence, *cells, *gates;  // as above
  const T *dsequence, *dcells;                            // [batch, time, units]
  const T* dgates;                                        // [batch, time, 4 units], may be null
  T* dz;                                                  // [batch, time, 4 units]
  T *dh, *dc;                                             // [batch, units]
  T* drecurrent;                                          // [units, 4 units]
};

std::size_t lstm_forward_workspace(const LstmShape& shape);
std::size_t lstm_backward_workspace(const LstmShape& shape);

template <class T>
void run_lstm_forward(const LstmShape& shape, const LstmForward<T>& a, std::span<std::byte> workspace);
template <class T>
void run_lstm_backward(const LstmShape& shape, const LstmBackward<T>& a, std::span<std::byte> workspace);

}  // namespace thalweg
