#include "models/batches.h"

#include <algorithm>
#include <cmath>

namespace thalweg::models {
namespace {

// Sums of (k + 1)^-power, the last of them 1.
std::vector<double> cumulative_power_law(std::int64_t count, double power) {
  std::vector<double> sums;
  double sum = 0;
  for (std::int64_t k = 1; k <= count; ++k) sums.push_back(sum += std::pow(static_cast<double>(k), -power));
  for (double& value : sums) value /= sum;
  return sums;
}

Tensor power_law_ids(const Shape& shape, std::int64_t table_rows) {
  const auto sums = cumulative_power_law(table_rows, 1.05);
  std::vector<std::int32_t> ids;
  for (const double drawn : random::uniform(shape, {.dtype = f64}).to_vector<double>()) {
    const auto found = std::upper_bound(sums.begin(), sums.end() - 1, drawn);
    ids.push_back(static_cast<std::int32_t>(found - sums.begin()));
  }
  return Tensor::from(ids, shape);
}

}  // namespace

std::vector<Tensor> random_batch(const std::vector<Spec>& specs, std::int64_t classes) {
  std::vector<Tensor> batch;
  for (const auto& spec : specs)
    batch.push_back(is_float(spec.dtype)
                        ? random::normal(spec.shape, {.dtype = spec.dtype})
                        : random::uniform(spec.shape, {.high = static_cast<double>(classes), .dtype = spec.dtype}));
  return batch;
}

std::vector<Tensor> click_batch(const std::vector<Spec>& specs, std::int64_t table_rows) {
  return {random::normal(specs[0].shape), power_law_ids(specs[1].shape, table_rows), random::bernoulli(specs[2].shape)};
}

}  // namespace thalweg::models
