#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/backend/cpu/kernels/index_view.h"

namespace thalweg::cpu {

// Cross-entropy of logits x w + bias, made a chunk of rows at a time: at most 64 MiB of them, or 16 rows, are held, in
// the workspace. x, w, dx and the logits are stored as S, any float type; all else is float, or double for double.
struct LossHead {
  std::int64_t rows, depth, classes;
  bool transposed;  // w is [classes, depth] instead of [depth, classes]
};

// What both directions read.
template <class S, class T = Wide<S>>
struct LossHeadInputs {
  LossHead head;
  const S* x;     // [rows, depth]
  const S* w;     // [depth, classes]
  const T* bias;  // [classes]; null: none
  IndexView labels;
};

template <class S>
std::int64_t loss_head_workspace_forward(const LossHead& head);
template <class S>
std::int64_t loss_head_workspace_backward(const LossHead& head);

// loss [rows]; statistics [rows, 2] as CrossEntropyKernels keeps them
template <class S, class T = Wide<S>>
void loss_head_forward(const LossHeadInputs<S>& in, T* loss, T* statistics, std::span<std::byte> workspace);

template <class S, class T = Wide<S>>
struct LossHeadGradients {
  S* dx;
  T* dw;
  T* dbias;  // null: none
};
// Makes the logits again.
template <class S, class T = Wide<S>>
void loss_head_backward(const LossHeadInputs<S>& in, const T* statistics, const T* dloss,
                        const LossHeadGradients<S>& out, std::span<std::byte> workspace);

}  // namespace thalweg::cpu
