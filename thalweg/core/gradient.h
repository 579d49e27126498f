#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

// The derivative of a scalar by one tensor: undefined (not connected), dense, or row-sparse as gather and
// embedding_lookup make it: row indices[i] of the whole receives values[i]; repeated rows add, row -1 stands for none.
class TW_API Gradient {
 public:
  Gradient() = default;
  Gradient(Tensor dense) : values_(std::move(dense)) {}
  Gradient(Tensor values, Tensor indices, Shape shape);  // values [n, ...], indices [n], shape [rows, ...]

  bool defined() const { return values_.defined(); }
  bool is_sparse() const { return indices_.defined(); }
  const Shape& shape() const { return is_sparse() ? shape_ : values_.shape(); }
  DType dtype() const { return values_.dtype(); }
  Tensor dense() const;  // repeated rows added; undefined stays undefined
  operator Tensor() const { return dense(); }
  const Tensor& values() const { return values_; }
  const Tensor& indices() const { return indices_; }

 private:
  Tensor values_, indices_;
  Shape shape_;
};

using Gradients = SmallVector<Gradient, 4>;

}  // namespace thalweg
