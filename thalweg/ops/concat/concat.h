#pragma once

#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

// The tensors one after the other along an axis; the other sizes and the dtypes are equal.
TW_API Tensor concat(const std::vector<Tensor>& list, std::int64_t axis);
// The same, then transposed, in one pass: what compiled functions make of both. The axes are to be right.
Tensor concat_transposed(const std::vector<Tensor>& list, int axis, const Ints& perm);
// Tensors of one shape as slices of a new axis: k of [a, b] at axis 1 -> [a, k, b].
TW_API Tensor stack(const std::vector<Tensor>& list, std::int64_t axis = 0);

// How an axis is cut: into a number of equal parts, or into parts of given sizes, one of which may be -1 and is found.
class TW_API Parts {
 public:
  Parts(std::int64_t count) : count_(count) {}
  Parts(int count) : count_(count) {}
  Parts(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}
  Parts(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}
  std::vector<std::int64_t> resolve(std::int64_t size) const;  // the sizes of the parts of an axis of this size

 private:
  std::int64_t count_ = -1;
  std::vector<std::int64_t> sizes_;
};

TW_API std::vector<Tensor> split(const Tensor& x, const Parts& parts, std::int64_t axis = 0);
// The slices along an axis, without that axis.
TW_API std::vector<Tensor> unstack(const Tensor& x, std::int64_t axis = 0);

}  // namespace thalweg
