#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/places.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/segment/segment.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;
using Combine = double (*)(double, double);

double add(double a, double b) { return a + b; }
double larger(double a, double b) { return std::isnan(b) || b > a ? b : a; }

Tensor collected(const Tensor& x, const Tensor& ids, std::int64_t segments, double start, Combine combine) {
  const std::int64_t rows = ids.size(), width = rows ? x.size() / rows : x.shape().product(ids.rank(), x.rank());
  std::vector<double> y(static_cast<std::size_t>(segments * width), start);
  const auto values = x.to_vector<double>();
  const auto id = ids.to_vector<std::int64_t>();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < width && id[static_cast<std::size_t>(i)] >= 0; ++j) {
      auto& element = y[static_cast<std::size_t>(id[static_cast<std::size_t>(i)] * width + j)];
      element = combine(element, values[static_cast<std::size_t>(i * width + j)]);
    }
  return Tensor::from(y, concatenate({segments}, x.shape().suffix(ids.rank())));
}

Sample summed(const std::string& label, const Shape& x, const Tensor& ids, std::int64_t segments) {
  return {.op = "unsorted_segment_sum",
          .label = label,
          .inputs = {{x, Domain::integers}},
          .call = [=](In in) { return std::vector{unsorted_segment_sum(in[0], ids, segments)}; },
          .oracle = [=](In in) { return std::vector{collected(in[0], ids, segments, 0, add)}; },
          .exact = true};
}

Sample largest(const std::string& label, const Shape& x, const Tensor& ids, std::int64_t segments) {
  return {.op = "unsorted_segment_max",
          .label = label,
          .inputs = {{x, Domain::apart}},
          .call = [=](In in) { return std::vector{unsorted_segment_max(in[0], ids, segments)}; },
          .oracle =
              [=](In in) {
                return std::vector{collected(in[0], ids, segments, std::numeric_limits<double>::lowest(), larger)};
              },
          .exact = true};
}

std::vector<Tensor> means(In in, const Tensor& ids, std::int64_t segments) {
  auto sums = collected(in[0], ids, segments, 0, add).to_vector<double>();
  const auto counts = collected(ones_like(in[0]), ids, segments, 0, add).to_vector<double>();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = counts[i] == 0 ? 0 : sums[i] / counts[i];
  return {Tensor::from(sums, in[0].shape().with(0, segments))};
}

// -1 to 10, many times each.
Tensor many_ids(std::int64_t count) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(i * 7 % 12) - 1);
  return Tensor::from(ids, {count});
}

}  // namespace

TW_SAMPLES {
  const Tensor ids = tensor({2, 0, 2, -1, 1}), sorted = tensor({0, 0, 2, 2, 2}),
               matrix = tensor({{0, 1}, {1, 0}, {3, 1}});
  const Tensor none = zeros({0}, i64);
  return {
      .samples =
          {
              summed("any order, one left out", {5, 3}, ids, 3),
              summed("segments without rows", {5}, ids, 5),
              summed("ids of two axes", {3, 2, 9}, matrix, 4),
              summed("no rows", {0, 3}, none, 2),
              summed("no segments", {0, 3}, none, 0),
              summed("wide rows, several tasks", {700, 70}, many_ids(700), 36),
              {.op = "unsorted_segment_sum",
               .label = "segment_sum",
               .inputs = {{{5, 2}, Domain::integers}},
               .call = [=](In in) { return std::vector{segment_sum(in[0], sorted)}; },
               .oracle = [=](In in) { return std::vector{collected(in[0], sorted, 3, 0, add)}; },
               .exact = true},
              {.op = "unsorted_segment_sum",
               .label = "segment_sum of nothing",
               .inputs = {{{0, 2}, Domain::integers}},
               .call = [=](In in) { return std::vector{segment_sum(in[0], none)}; },
               .oracle = [=](In in) { return std::vector{collected(in[0], none, 0, 0, add)}; },
               .exact = true},
              {.op = "unsorted_segment_sum",
               .label = "segment_mean",
               .inputs = {{{5, 2}}},
               .call = [=](In in) { return std::vector{segment_mean(in[0], sorted)}; },
               .oracle = [=](In in) { return means(in, sorted, 3); }},
              largest("any order, one left out", {5, 3}, ids, 3),
              largest("wide rows", {40, 9}, many_ids(40), 11),
              {.op = "unsorted_segment_max",
               .label = "a segment without rows",
               .inputs = {{{5}, Domain::apart}},
               .call = [=](In in) { return std::vector{unsorted_segment_max(in[0], ids, 4)}; },
               .oracle =
                   [=](In in) {
                     return std::vector{collected(in[0], ids, 4, std::numeric_limits<double>::lowest(), larger)};
                   },
               .dtypes = {f64},
               .gradient_order = 0,
               .exact = true},
          },
      .mistakes =
          {
              {.op = "unsorted_segment_sum",
               .label = "an id too large",
               .call =
                   [] {
                     unsorted_segment_sum(zeros({2, 3}), tensor({0, 2}), 2);
                   },
               .code = ErrorCode::out_of_range,
               .words = {"[unsorted_segment_sum]", "index 2", "position [1]", "0 to 1"}},
              {.op = "unsorted_segment_sum",
               .label = "ids of another shape",
               .call =
                   [] {
                     unsorted_segment_sum(zeros({2, 3}), tensor({0, 1, 1}), 2);
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[unsorted_segment_sum]", "[2, 3]", "[3]"}},
              {.op = "unsorted_segment_sum",
               .label = "segment ids that descend",
               .call =
                   [] {
                     segment_sum(zeros({3}), tensor({0, 2, 1}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[segment_sum]", "ascend", "1 after 2", "position 2"}},
              {.op = "unsorted_segment_sum",
               .label = "a negative segment id",
               .call =
                   [] {
                     segment_mean(zeros({2}), tensor({-1, 0}));
                   },
               .code = ErrorCode::out_of_range,
               .words = {"[segment_mean]", "0 or more", "-1"}},
              {.op = "unsorted_segment_max",
               .label = "float ids",
               .call = [] { unsorted_segment_max(zeros({2}), zeros({2}), 2); },
               .code = ErrorCode::invalid_argument,
               .words = {"[unsorted_segment_max]", "i32, i64 or u8", "f32"}},
          },
  };
}
