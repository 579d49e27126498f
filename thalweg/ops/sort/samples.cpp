#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/sample.h"
#include "thalweg/ops/sort/along.h"
#include "thalweg/ops/sort/sort.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// Values and places of x [rows, n] in order, the first k of each row.
std::vector<Tensor> ordered(const Tensor& x, bool descending, std::int64_t k) {
  const auto values = x.data<double>();
  const auto n = static_cast<std::size_t>(x.shape().last());
  std::vector<double> sorted;
  std::vector<std::int32_t> places;
  const auto key = [](double value) { return std::isnan(value) ? 1e300 : std::clamp(value, -1e299, 1e299); };
  for (std::size_t row = 0; row * n < values.size(); ++row) {
    std::vector<std::int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      const double u = key(values[row * n + static_cast<std::size_t>(a)]),
                   v = key(values[row * n + static_cast<std::size_t>(b)]);
      return descending ? u > v : u < v;
    });
    for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
      places.push_back(order[i]);
      sorted.push_back(values[row * n + static_cast<std::size_t>(order[i])]);
    }
  }
  const Shape shape = x.shape().with(x.rank() - 1, k);
  return {Tensor::from(sorted, shape), Tensor::from(places, shape)};
}

Sample sorting(const char* label, const Shape& shape, Domain domain, bool descending) {
  return {.op = "argsort",
          .label = label,
          .inputs = {{shape, domain}},
          .call =
              [descending](In in) {
                return std::vector{sort(in[0], {.descending = descending}), argsort(in[0], {.descending = descending})};
              },
          .oracle = [descending](In in) { return ordered(in[0], descending, in[0].shape().last()); },
          .gradient_order = domain == Domain::apart ? 2 : 0,
          .exact = domain != Domain::apart};
}

Sample top(const char* label, const Shape& shape, Domain domain, std::int64_t k) {
  return {.op = "top_k",
          .label = label,
          .inputs = {{shape, domain}},
          .call =
              [k](In in) {
                const auto [values, indices] = top_k(in[0], k);
                return std::vector{values, indices};
              },
          .oracle = [k](In in) { return ordered(in[0], true, k); },
          .gradient_order = domain == Domain::apart ? 2 : 0,
          .exact = domain != Domain::apart};
}

Call taken(bool put) {
  return [put](In in) {
    const auto x = in[0].data<double>();
    const auto indices = in[1].data<std::int32_t>();
    std::vector<double> y(put ? 8 : 6);  // two rows of four, two of three
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::size_t other = i / 3 * 4 + static_cast<std::size_t>(indices[i]);
      (put ? y[other] : y[i]) += x[put ? i : other];
    }
    return std::vector{Tensor::from(y, {2, put ? 4 : 3})};
  };
}

}  // namespace

TW_SAMPLES {
  const Input places{.shape = {2, 3}, .domain = Domain::index, .limit = 4, .index_dtype = i32};
  Samples all;
  all.samples = {
      sorting("ascending", {3, 7}, Domain::apart, false),
      sorting("descending", {40}, Domain::apart, true),
      sorting("ties keep their order", {2, 30}, Domain::integers, false),
      sorting("ties keep their order, descending", {2, 30}, Domain::integers, true),
      sorting("several tasks", {3, 5000}, Domain::integers, false),
      sorting("empty", {2, 0}, Domain::apart, false),
      {.op = "argsort",
       .label = "first axis",
       .inputs = {{{4, 1}, Domain::apart}},
       .call = [](In in) { return std::vector{sort(in[0], {.axis = 0})}; },
       .oracle =
           [](In in) {
             auto values = in[0].to_vector<double>();
             std::sort(values.begin(), values.end(),
                       [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); });
             return std::vector{Tensor::from(values, {4, 1})};
           }},
      top("two of seven", {3, 7}, Domain::apart, 2),
      top("ties", {3, 30}, Domain::integers, 5),
      top("all", {2, 9}, Domain::apart, 9),
      top("none", {2, 9}, Domain::apart, 0),
      {.op = "take_along",
       .label = "repeated places",
       .inputs = {{{2, 4}}, places},
       .call = [](In in) { return std::vector{take_along(in[0], in[1])}; },
       .oracle = taken(false),
       .exact = true},
      {.op = "put_along",
       .label = "repeated places",
       .inputs = {{{2, 3}, Domain::integers}, places},
       .call = [](In in) { return std::vector{put_along(in[0], in[1], 4)}; },
       .oracle = taken(true),
       .exact = true},
  };
  all.mistakes = {
      {"argsort",
       "axis out of range",
       [] {
         sort(Tensor::from(std::vector<float>(6), {2, 3}), {.axis = 2});
       },
       ErrorCode::invalid_argument,
       {"[sort]", "axis 2", "rank 2"}},
      {"top_k",
       "k too large",
       [] {
         top_k(Tensor::from(std::vector<float>(6), {2, 3}), 4);
       },
       ErrorCode::invalid_argument,
       {"[top_k]", "0 to 3", "got 4"}},
      {"top_k",
       "scalar",
       [] { top_k(Tensor::from(std::vector<float>{1}, {}), 1); },
       ErrorCode::invalid_argument,
       {"[top_k]", "rank 1", "scalar"}},
  };
  return all;
}
