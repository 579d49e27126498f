#include "thalweg/core/gradient.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/gather/indices.h"
#include "thalweg/ops/segment/segment.h"

namespace thalweg {

Gradient::Gradient(Tensor values, Tensor indices, Shape shape)
    : values_(std::move(values)), indices_(std::move(indices)), shape_(shape) {
  require_index_dtype("gradient", "indices", indices_.dtype());
  const bool fits = indices_.rank() == 1 && shape_.rank() >= 1 && values_.rank() == shape_.rank() &&
                    values_.shape() == shape_.with(0, indices_.size());
  TW_CHECK_USER(fits, "gradient", "values hold one row of the whole for every index",
                "expected values [n, ...] and indices [n] for rows of {}, got values {} and indices {}", shape_,
                values_.shape(), indices_.shape());
}

Tensor Gradient::dense() const { return is_sparse() ? unsorted_segment_sum(values_, indices_, shape_[0]) : values_; }

}  // namespace thalweg
