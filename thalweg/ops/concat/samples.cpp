#include "tests/support/places.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// Inputs one after the other along the axis, element by element.
Call joined(int axis) {
  return [axis](In in) {
    std::int64_t size = 0;
    for (const auto& part : in) size += part.shape()[axis];
    const Shape shape = in[0].shape().with(axis, size);
    std::vector<double> y(static_cast<std::size_t>(shape.size()));
    std::int64_t start = 0;
    for (const auto& part : in) {
      const auto x = part.to_vector<double>();
      for_each_place(part.shape(), [&](Ints place, std::int64_t i) {
        place[axis] += start;
        y[static_cast<std::size_t>(number_of(place, shape))] = x[static_cast<std::size_t>(i)];
      });
      start += part.shape()[axis];
    }
    return std::vector{Tensor::from(y, shape)};
  };
}

Sample concat_sample(const std::string& label, std::vector<Input> inputs, int axis, int given) {
  return {.op = "concat",
          .label = label,
          .inputs = std::move(inputs),
          .call = [given](In in) { return std::vector{concat(in, given)}; },
          .oracle = joined(axis),
          .exact = true};
}

// Parts of input 0 along an axis, by their first places.
Call parts_of(const std::vector<Shape>& shapes, int axis) {
  return [=](In in) {
    std::vector<Tensor> parts;
    std::int64_t start = 0;
    for (const auto& shape : shapes) {
      const auto source = [axis, start](Ints place) { return place[axis] += start, place; };
      parts.push_back(moved(shape, source)(in)[0]);
      start += shape[axis];
    }
    return parts;
  };
}

Sample split_sample(const std::string& label, const Shape& shape, const Parts& parts, int axis,
                    const std::vector<Shape>& shapes) {
  return {.op = "split",
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return split(in[0], parts, axis); },
          .oracle = parts_of(shapes, axis < 0 ? axis + shape.rank() : axis),
          .exact = true};
}

Call stacked(const Shape& shape, int axis) {
  return [=](In in) {
    std::vector<double> y(static_cast<std::size_t>(shape.size()));
    for_each_place(shape, [&](const Ints& place, std::int64_t i) {
      const Tensor& part = in[static_cast<std::size_t>(place[axis])];
      Ints at;
      for (int k = 0; k < place.size(); ++k)
        if (k != axis) at.push_back(place[k]);
      y[static_cast<std::size_t>(i)] = part.to_vector<double>()[static_cast<std::size_t>(number_of(at, part.shape()))];
    });
    return std::vector{Tensor::from(y, shape)};
  };
}

}  // namespace

TW_SAMPLES {
  return {
      .samples =
          {
              concat_sample("first axis", {{{2, 3}}, {{4, 3}}}, 0, 0),
              concat_sample("last axis, from the end", {{{2, 3}}, {{2, 1}}, {{2, 4}}}, 1, -1),
              concat_sample("middle axis", {{{3, 2, 5}}, {{3, 1, 5}}}, 1, 1),
              concat_sample("one part empty", {{{2, 0}}, {{2, 3}}}, 1, 1),
              concat_sample("a single tensor", {{{2, 3}}}, 0, 0),
              concat_sample(
                  "only one part differentiable",
                  {{{2, 3}}, {.shape = {2, 2}, .differentiable = false}, {.shape = {2, 1}, .differentiable = false}}, 1,
                  1),
              concat_sample("five parts", {{{1, 2}}, {{1, 2}}, {{2, 2}}, {{1, 2}}, {{3, 2}}}, 0, 0),
              {.op = "concat",
               .label = "transposed",
               .inputs = {{{2, 3, 4}}, {{2, 1, 4}}},
               .call =
                   [](In in) {
                     return std::vector{concat_transposed(in, 1, {2, 0, 1})};
                   },
               .oracle =
                   [](In in) {
                     return moved({4, 2, 4}, [](const Ints& p) { return Ints{p[1], p[2], p[0]}; })(joined(1)(in));
                   },
               .exact = true},
              {.op = "concat",
               .label = "stack",
               .inputs = {{{2, 3}}, {{2, 3}}},
               .call = [](In in) { return std::vector{stack(in, 1)}; },
               .oracle = stacked({2, 2, 3}, 1),
               .exact = true},
              {.op = "concat",
               .label = "stack of scalars",
               .inputs = {{{}}, {{}}, {{}}},
               .call = [](In in) { return std::vector{stack(in)}; },
               .oracle = stacked({3}, 0),
               .exact = true},
              {.op = "concat",
               .label = "stack at the end",
               .inputs = {{{4}}, {{4}}},
               .call = [](In in) { return std::vector{stack(in, -1)}; },
               .oracle = stacked({4, 2}, 1),
               .exact = true},
              split_sample("three equal parts", {4, 6}, 3, 1, {{4, 2}, {4, 2}, {4, 2}}),
              split_sample("sizes", {7, 2}, {2, 1, 4}, 0, {{2, 2}, {1, 2}, {4, 2}}),
              split_sample("one size found, axis from the end", {2, 7}, {2, -1}, -1, {{2, 2}, {2, 5}}),
              split_sample("one list entry is a size", {2, 7}, {7}, 1, {{2, 7}}),
              split_sample("a part is empty", {3}, {0, 3}, 0, {{0}, {3}}),
              {.op = "split",
               .label = "one part unused",
               .inputs = {{{2, 6}}},
               .call = [](In in) { return std::vector{split(in[0], 3, 1)[1]}; },
               .oracle = moved({2, 2},
                               [](const Ints& p) {
                                 return Ints{p[0], p[1] + 2};
                               }),
               .exact = true},
              {.op = "split",
               .label = "unstack",
               .inputs = {{{2, 3}}},
               .call = [](In in) { return unstack(in[0], 1); },
               .oracle =
                   [](In in) {
                     std::vector<Tensor> columns;
                     for (std::int64_t j = 0; j < 3; ++j)
                       columns.push_back(moved({2}, [j](const Ints& p) { return Ints{p[0], j}; })(in)[0]);
                     return columns;
                   },
               .exact = true},
          },
      .mistakes =
          {
              {.op = "concat",
               .label = "sizes differ",
               .call =
                   [] {
                     concat({zeros({2, 3}), zeros({3, 3})}, 1);
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[concat]", "[2, 3]", "[3, 3]", "tensor 1"}},
              {.op = "concat",
               .label = "dtypes differ",
               .call =
                   [] {
                     concat({zeros({2}), zeros({2}, i32)}, 0);
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[concat]", "expected f32", "got i32"}},
              {.op = "concat",
               .label = "nothing",
               .call = [] { concat({}, 0); },
               .code = ErrorCode::invalid_argument,
               .words = {"[concat]", "at least one"}},
              {.op = "concat",
               .label = "scalars",
               .call =
                   [] {
                     concat({zeros({}), zeros({})}, 0);
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[concat]", "tw::stack"}},
              {.op = "concat",
               .label = "stack of different shapes",
               .call =
                   [] {
                     stack({zeros({2}), zeros({3})});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[stack]", "expected [2]", "got [3]"}},
              {.op = "split",
               .label = "parts do not divide",
               .call = [] { split(zeros({7}), 2); },
               .code = ErrorCode::invalid_argument,
               .words = {"[split]", "divides 7", "got 2"}},
              {.op = "split",
               .label = "sizes do not add up",
               .call =
                   [] {
                     split(zeros({7}), {2, 4});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[split]", "add up to 7", "got 6"}},
          },
  };
}
