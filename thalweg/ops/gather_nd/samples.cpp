#include "tests/support/places.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/gather_nd/gather_nd.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// The place in the tensor that index vector number k, and then the place `rest` inside a slice, speak of.
Ints target(const std::vector<std::int64_t>& indices, std::int64_t depth, std::int64_t k, const Ints& rest) {
  Ints at;
  for (std::int64_t i = 0; i < depth; ++i) at.push_back(indices[static_cast<std::size_t>(k * depth + i)]);
  for (const std::int64_t i : rest) at.push_back(i);
  return at;
}

std::vector<Tensor> gathered(In in) {
  const Shape &x = in[0].shape(), &vectors = in[1].shape();
  const Shape front = vectors.prefix(vectors.rank() - 1);
  const auto indices = in[1].to_vector<std::int64_t>();
  return moved(concatenate(front, x.suffix(static_cast<int>(vectors.last()))), [&](const Ints& place) {
    const Ints which(std::span(place.begin(), static_cast<std::size_t>(front.rank()))),
        rest(std::span(place.begin() + front.rank(), place.end()));
    return target(indices, vectors.last(), number_of(which, front), rest);
  })(in);
}

// Updates laid into y one after the other: added, or put in place.
Tensor scattered(const Tensor& start, const Tensor& vectors, const Tensor& updates, bool add) {
  auto y = start.to_vector<double>();
  const auto values = updates.to_vector<double>();
  const auto indices = vectors.to_vector<std::int64_t>();
  const Shape front = vectors.shape().prefix(vectors.rank() - 1);
  for_each_place(updates.shape(), [&](const Ints& place, std::int64_t i) {
    const Ints which(std::span(place.begin(), static_cast<std::size_t>(front.rank()))),
        rest(std::span(place.begin() + front.rank(), place.end()));
    auto& element = y[static_cast<std::size_t>(
        number_of(target(indices, vectors.shape().last(), number_of(which, front), rest), start.shape()))];
    element = values[static_cast<std::size_t>(i)] + (add ? element : 0);
  });
  return Tensor::from(y, start.shape());
}

Sample take(const std::string& label, const Shape& x, const Tensor& indices) {
  return {.op = "gather_nd",
          .label = label,
          .inputs = {{x}},
          .call = [=](In in) { return std::vector{gather_nd(in[0], indices)}; },
          .oracle =
              [=](In in) {
                return gathered({in[0], indices});
              },
          .exact = true};
}

Sample put(const std::string& label, const Shape& shape, const Tensor& indices, const Shape& updates) {
  return {.op = "scatter_nd",
          .label = label,
          .inputs = {{updates, Domain::integers}},
          .call = [=](In in) { return std::vector{scatter_nd(indices, in[0], shape)}; },
          .oracle = [=](In in) { return std::vector{scattered(zeros(shape, f64), indices, in[0], true)}; },
          .exact = true};
}

using Scatter = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);

Sample change(const char* op, Scatter scatter, const std::string& label, const Shape& x, const Tensor& indices,
              const Shape& updates) {
  const bool add = std::string(op) == "tensor_scatter_nd_add";
  return {.op = op,
          .label = label,
          .inputs = {{x, Domain::integers}, {updates, Domain::integers}},
          .call = [=](In in) { return std::vector{scatter(in[0], indices, in[1])}; },
          .oracle = [=](In in) { return std::vector{scattered(in[0], indices, in[1], add)}; },
          .exact = true};
}

// Many rows with few different numbers.
Tensor crowded(std::int64_t count, std::int64_t rows) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(i * i * 7 % rows);
  return Tensor::from(ids, {count, 1});
}

}  // namespace

TW_SAMPLES {
  const Tensor pairs = tensor({{0, 1}, {2, 0}, {0, 1}}), rows = tensor({{2}, {0}, {2}, {2}}),
               empty = zeros({0, 1}, i32), all = zeros({2, 0}, i64);
  const Tensor batched = tensor({{{1}, {0}}, {{2}, {2}}});
  return {
      .samples =
          {
              take("elements", {3, 2}, pairs),
              take("slices", {3, 2, 4}, pairs),
              take("rows: a row-sparse gradient", {3, 4}, rows),
              take("nothing", {3, 4}, empty),
              take("the whole tensor", {3, 2}, all),
              {.op = "gather_nd",
               .label = "one batch axis",
               .inputs = {{{2, 3, 4}}},
               .call = [=](In in) { return std::vector{gather_nd(in[0], batched, {.batch_dims = 1})}; },
               .oracle = moved({2, 2, 4},
                               [](const Ints& p) {
                                 return Ints{p[0], p[0] == 1 ? 2 : 1 - p[1], p[2]};
                               }),
               .exact = true},
              put("elements that repeat", {3, 2}, pairs, {3}),
              put("slices", {3, 2, 9}, pairs, {3, 9}),
              put("wide rows", {3, 70}, rows, {4, 70}),
              put("nothing", {3, 4}, empty, {0, 4}),
              put("the whole tensor", {3, 2}, all, {2, 3, 2}),
              put("several tasks", {13, 90}, crowded(1000, 13), {1000, 90}),
              change("tensor_scatter_nd_add", tensor_scatter_nd_add, "rows that repeat", {3, 4}, rows, {4, 4}),
              change("tensor_scatter_nd_add", tensor_scatter_nd_add, "elements", {3, 2}, pairs, {3}),
              change("tensor_scatter_nd_add", tensor_scatter_nd_add, "nothing", {3, 4}, empty, {0, 4}),
              change("tensor_scatter_nd_update", tensor_scatter_nd_update, "the last of repeated rows", {3, 4}, rows,
                     {4, 4}),
              change("tensor_scatter_nd_update", tensor_scatter_nd_update, "elements", {3, 2}, pairs, {3}),
              change("tensor_scatter_nd_update", tensor_scatter_nd_update, "nothing", {3, 4}, empty, {0, 4}),
          },
      .mistakes =
          {
              {.op = "gather_nd",
               .label = "out of range",
               .call =
                   [] {
                     gather_nd(zeros({3, 2}), tensor({{0, 1}, {1, 2}}));
                   },
               .code = ErrorCode::out_of_range,
               .words = {"[gather_nd]", "index 2", "position [1, 1]", "0 to 1"}},
              {.op = "gather_nd",
               .label = "vectors too long",
               .call =
                   [] {
                     gather_nd(zeros({3}), tensor({{0, 1}}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[gather_nd]", "at most 1", "got 2"}},
              {.op = "gather_nd",
               .label = "batches differ",
               .call =
                   [] {
                     gather_nd(zeros({3, 2}), zeros({2, 1}, i32), {.batch_dims = 1});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[gather_nd]", "[3, 2]", "[2, 1]"}},
              {.op = "scatter_nd",
               .label = "out of range",
               .call =
                   [] {
                     scatter_nd(tensor({{3}}), zeros({1, 2}), {3, 2});
                   },
               .code = ErrorCode::out_of_range,
               .words = {"[scatter_nd]", "index 3", "0 to 2"}},
              {.op = "scatter_nd",
               .label = "updates of another shape",
               .call =
                   [] {
                     scatter_nd(tensor({{1}}), zeros({2}), {3, 2});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[scatter_nd]", "expected updates [1, 2]", "got [2]"}},
              {.op = "scatter_nd",
               .label = "booleans",
               .call = [] { scatter_nd(tensor({{1}}), zeros({1}, boolean), {3}); },
               .code = ErrorCode::invalid_argument,
               .words = {"[scatter_nd]", "boolean"}},
              {.op = "tensor_scatter_nd_add",
               .label = "dtypes differ",
               .call = [] { tensor_scatter_nd_add(zeros({3}), tensor({{1}}), zeros({1}, f64)); },
               .code = ErrorCode::invalid_argument,
               .words = {"[tensor_scatter_nd_add]", "f32", "f64"}},
              {.op = "tensor_scatter_nd_update",
               .label = "out of range",
               .call = [] { tensor_scatter_nd_update(zeros({3}), tensor({{-1}}), zeros({1})); },
               .code = ErrorCode::out_of_range,
               .words = {"[tensor_scatter_nd_update]", "index -1", "0 to 2"}},
          },
  };
}
