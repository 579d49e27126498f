#pragma once

#include <cstdint>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/backend/cpu/kernels/index_view.h"

namespace thalweg::cpu {

// Softmax cross-entropy of logits [rows, n]. Logits and their gradients are stored as S, any float
// type; all else is float, or double for double. Forward keeps statistics [rows, 2] for the gradient:
// the largest logit, and its softmax 1 / sum(exp(logits - largest)). In one number, log(sum(exp(logits))), a large
// logit would take the digits of the sum. dlogits may be logits. Labels must lie in [0, n): see find_bad_index.
template <class S, class T = Wide<S>>
struct CrossEntropyKernels {
  // labels [rows] -> loss [rows] = log(sum(exp(logits))) - logits[label]
  void (*sparse)(const S* logits, IndexView labels, std::int64_t rows, std::int64_t n, T* loss, T* statistics);
  // dlogits [rows, n] = (softmax - one_hot(label)) * dloss [rows]
  void (*sparse_gradient)(const S* logits, IndexView labels, const T* statistics, const T* dloss, std::int64_t rows,
                          std::int64_t n, S* dlogits);
  // labels [rows, n] -> loss [rows] = sum(labels * (log(sum(exp(logits))) - logits))
  void (*dense)(const S* logits, const T* labels, std::int64_t rows, std::int64_t n, T* loss, T* statistics);
  // dlogits [rows, n] = (softmax - labels) * dloss, as TensorFlow: each row of labels is taken to sum to 1
  void (*dense_gradient)(const S* logits, const T* labels, const T* statistics, const T* dloss, std::int64_t rows,
                         std::int64_t n, S* dlogits);
};

// The kernels for this processor.
template <class S>
const CrossEntropyKernels<S>& cross_entropy_kernels();

}  // namespace thalweg::cpu
