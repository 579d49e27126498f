#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thalweg/backend/cpu/kernels/index_view.h"

namespace thalweg::cpu {

// Cross-entropy of logits x w + bias, made a chunk of rows at a time: at most 64 MiB of them, or 16 rows, are held, in
// the workspace. T is float or double.
struct LossHead {
  std::int64_t rows, depth, classes;
  bool transposed;  // w is [classes, depth] instead of [depth, classes]
};

// What both directions read.
template <class T>
struct LossHeadInputs {
  LossHead head;
  const T* x;     // [rows, depth]
  const T* w;     // [depth, classes]
  const T* bias;  // [classes]; null: none
  IndexView labels;
};

template <class T>
std::int64_t loss_head_workspace_forward(const LossHead& head);
template <class T>
std::int64_t loss_head_workspace_backward(const LossHead& head);

// loss [rows]; statistics [rows, 2] as CrossEntropyKernels keeps them
template <class T>
void loss_head_forward(const LossHeadInputs<T>& in, T* loss, T* statistics, std::span<std::byte> workspace);

template <class T>
struct LossHeadGradients {
  T *dx, *dw;
  T* dbias;  // null: none
};
// Makes the logits again.
template <class T>
void loss_head_backward(const LossHeadInputs<T>& in, const T* statistics, const T* dloss,
                        const LossHeadGradients<T>& out, std::span<std::byte> workspace);

}  // namespace thalweg::cpu
