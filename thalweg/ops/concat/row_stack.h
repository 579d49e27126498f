#pragma once

#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

// `count` rows of every group that come one or some at a time, all [groups, width] or reshapes of it, stacked along a
// new axis 1. While nothing records or traces, rows are copied to their place and may go: only the result is held. Else
// all rows are kept and joined at the end by an op.
class RowStack {
 public:
  RowStack(std::int64_t groups, std::int64_t count) : groups_(groups), count_(count) {}
  void add(const Tensor& rows, std::int64_t count = 1);  // [groups, count, width]
  Tensor result() const;                                 // [groups, count, width], once all rows were added

 private:
  std::int64_t groups_, count_, written_ = 0;
  Tensor result_;
  std::vector<Tensor> rows_;
};

}  // namespace thalweg
