#include <cmath>

#include "tests/support/sample.h"
#include "thalweg/ops/argreduce/argreduce.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// The place of the largest of sign * x along the axis.
Call place_of_largest(int axis, double sign) {
  return [axis, sign](In in) {
    const auto x = in[0].data<double>();
    const Shape& shape = in[0].shape();
    const std::int64_t n = shape[axis], inner = shape.product(axis + 1, shape.rank());
    std::vector<std::int64_t> places;
    for (std::int64_t column = 0; column < shape.product(0, axis) * inner; ++column) {
      const auto value = [&](std::int64_t i) {
        return sign * x[static_cast<std::size_t>((column / inner * n + i) * inner + column % inner)];
      };
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < n && !std::isnan(value(best)); ++i)
        if (value(i) > value(best) || std::isnan(value(i))) best = i;
      places.push_back(best);
    }
    return std::vector{Tensor::from(places, shape.without(axis))};
  };
}

void add(std::vector<Sample>& samples, const char* label, const Shape& shape, std::int64_t axis) {
  const int resolved = static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
  samples.push_back({.op = "argmax",
                     .label = label,
                     .inputs = {{shape, Domain::integers}},
                     .call = [axis](In in) { return std::vector{argmax(in[0], axis)}; },
                     .oracle = place_of_largest(resolved, 1),
                     .gradient_order = 0,
                     .exact = true});
  samples.push_back({.op = "argmin",
                     .label = label,
                     .inputs = {{shape, Domain::integers}},
                     .call = [axis](In in) { return std::vector{argmin(in[0], axis)}; },
                     .oracle = place_of_largest(resolved, -1),
                     .gradient_order = 0,
                     .exact = true});
}

}  // namespace

TW_SAMPLES {
  Samples all;
  add(all.samples, "inner axis with ties", {5, 9}, 1);
  add(all.samples, "outer axis", {9, 5}, 0);
  add(all.samples, "middle axis from the end", {2, 7, 3}, -2);
  add(all.samples, "several tiles", {3, 600}, 0);
  add(all.samples, "several tasks", {50, 1500}, 1);
  add(all.samples, "empty result", {0, 4}, 1);
  all.mistakes = {
      {"argmax",
       "empty axis",
       [] {
         argmax(Tensor::from(std::vector<float>(), {3, 0}), 1);
       },
       ErrorCode::invalid_argument,
       {"[argmax]", "axis 1", "[3, 0]"}},
      {"argmin",
       "scalar",
       [] { argmin(Tensor::from(std::vector<float>{1}, {}), 0); },
       ErrorCode::invalid_argument,
       {"[argmin]", "axis 0", "rank 0"}},
  };
  return all;
}
