#pragma once

#include <cstdint>

namespace thalweg::cpu {

// One step of some rows, T = float or double. Gates i, f, g, o are 4 units, all others `units` wide. The rows of
// sequences are `distance` units apart, those of c_before `before` units, all others lie together.
template <class T>
struct LstmGates {
  std::int64_t rows, units, distance, before;
  const T* z;         // the share of x and the bias
  T* gates;           // the share of h on entry, activations on return
  const T* c_before;  // c of the step before
  T *c, *h;
};

template <class T>
struct LstmGateGradients {
  std::int64_t rows, units, distance, before;
  const T *gates, *c, *c_before;
  const T *dsequence, *dcells;  // of h and c by themselves
  const T* dgates;              // may be null
  T* dz;
  const T* dh;  // not a sequence: what the step after says of h
  T* dc;        // not a sequence: what the step after says of c; on return what this one says of c_before
};

template <class T>
struct LstmGateKernels {
  void (*activate)(const LstmGates<T>&);
  void (*gradients)(const LstmGateGradients<T>&);
};

template <class T>
const LstmGateKernels<T>& lstm_gate_kernels();

}  // namespace thalweg::cpu
