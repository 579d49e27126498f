#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

struct Sort {
  std::int64_t axis = -1;
  bool descending = false;
};
// Equal elements keep their order; a NaN counts as larger than any number.
TW_API Tensor sort(const Tensor& x, const Sort& options = {});
TW_API Tensor argsort(const Tensor& x,
                      const Sort& options = {});  // the places from which `sort` takes its elements, i32

struct TopK {
  Tensor values, indices;
};
// The k largest elements along the last axis, largest first, and their places (i32): the lowest first among equals.
TW_API TopK top_k(const Tensor& x, std::int64_t k);

}  // namespace thalweg
