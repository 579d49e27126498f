#include "thalweg/ops/clip/combine_rows.h"

#include <algorithm>
#include <vector>

#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/segment/segment.h"

namespace thalweg {

Gradient combine_rows(const Gradient& gradient) {
  if (!gradient.defined() || !gradient.is_sparse()) return gradient;
  const auto rows = cast(gradient.indices(), i64).to_vector<std::int64_t>();
  std::vector<std::int64_t> distinct = rows;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<std::int64_t> places;  // of each row among the distinct ones
  for (std::int64_t row : rows)
    places.push_back(std::lower_bound(distinct.begin(), distinct.end(), row) - distinct.begin());
  const auto count = static_cast<std::int64_t>(distinct.size());
  const Tensor sums =
      unsorted_segment_sum(gradient.values(), Tensor::from(places, {static_cast<std::int64_t>(rows.size())}), count);
  return Gradient(sums, Tensor::from(distinct, {count}), gradient.shape());
}

}  // namespace thalweg
