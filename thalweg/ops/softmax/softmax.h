#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// exp(x) / sum(exp(x)) along an axis, without overflow. A slice with NaN, +inf or only -inf gives NaN.
TW_API Tensor softmax(const Tensor& x, std::int64_t axis = -1);
// x - log(sum(exp(x))): the logarithm of softmax, exact where softmax itself would round to 0.
TW_API Tensor log_softmax(const Tensor& x, std::int64_t axis = -1);

}  // namespace thalweg
