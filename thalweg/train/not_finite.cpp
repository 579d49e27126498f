#include "thalweg/train/not_finite.h"

#include <algorithm>
#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/ops/ops.h"
#include "thalweg/train/callback.h"

namespace thalweg::train {
namespace {

std::string name_of_part(std::int64_t part, int inputs) {
  if (part == inputs) return "the labels";
  if (part > inputs) return "the weights";
  return inputs == 1 ? "the input" : fmt::format("input {}", part);
}

}  // namespace

std::string not_finite(const data::Element& batch, int inputs) {
  std::int64_t part = 0;
  for (const auto& values : batch) {
    if (is_float(values.dtype())) {
      const auto list = cast(values, f64).to_vector<double>();
      const auto found = std::find_if_not(list.begin(), list.end(), [](double value) { return std::isfinite(value); });
      if (found != list.end()) {
        const std::int64_t at = found - list.begin(), each = values.size() / values.shape()[0];
        return fmt::format("{} in {}: value {} of example {} of the batch", *found, name_of_part(part, inputs),
                           at % each, at / each);
      }
    }
    ++part;
  }
  return {};
}

std::string Session::not_finite() const { return element ? train::not_finite(*element, inputs) : std::string(); }

}  // namespace thalweg::train
