#pragma once

#include <cstdint>

namespace thalweg::cpu {

// One step of some rows, T = float or double. Matrices are dense: gates [rows, 4 units] are i, f, g, o; all others
// [rows, units].
template <class T>
struct LstmGates {
  std::int64_t rows, units;
  const T* z;         // [rows, 4 units]: the share of x and the bias
  T* gates;           // the share of h on entry, activations on return
  const T* c_before;  // c of the step before
  T *c, *h;
};

template <class T>
struct LstmGateGradients {
  std::int64_t rows, units;
  const T *gates, *c, *c_before;
  const T *dsequence, *dcells;  // of h and c by themselves
  const T* dgates;              // [rows, 4 units], may be null
  const T* dh;                  // what the step after says of h
  T* dc;                        // what the step after says of c; on return what this one says of c_before
  T* dz;                        // [rows, 4 units]
};

template <class T>
struct LstmGateKernels {
  void (*activate)(const LstmGates<T>&);
  void (*gradients)(const LstmGateGradients<T>&);
};

template <class T>
const LstmGateKernels<T>& lstm_gate_kernels();

}  // namespace thalweg::cpu
