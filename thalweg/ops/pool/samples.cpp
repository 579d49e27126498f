#include <cmath>

#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/pool/gradients.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;
using Values = std::vector<double>;

// A pool of two spatial axes as plain loops over the positions of each window; one axis is [n, 1, w, c].
struct Loops {
  Shape x, y;  // [batch, height, width, channels]
  Ints size, strides;
  bool padded;

  std::int64_t before(int axis) const {
    const std::int64_t missing = (y[axis] - 1) * strides[axis - 1] + size[axis - 1] - x[axis];
    return padded && missing > 0 ? missing / 2 : 0;
  }
  static std::size_t index(const Shape& s, std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) {
    return static_cast<std::size_t>(((n * s[1] + i) * s[2] + j) * s[3] + c);
  }
  // visit(place in y, positions in x) for every place and channel.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t n = 0; n < y[0]; ++n)
      for (std::int64_t i = 0; i < y[1]; ++i)
        for (std::int64_t j = 0; j < y[2]; ++j)
          for (std::int64_t c = 0; c < y[3]; ++c) {
            std::vector<std::size_t> positions;
            for (std::int64_t p = 0; p < size[0]; ++p)
              for (std::int64_t q = 0; q < size[1]; ++q) {
                const std::int64_t row = i * strides[0] + p - before(1), column = j * strides[1] + q - before(2);
                if (row >= 0 && row < x[1] && column >= 0 && column < x[2])
                  positions.push_back(index(x, n, row, column, c));
              }
            visit(index(y, n, i, j, c), positions);
          }
  }
};

std::size_t largest(const Values& x, const std::vector<std::size_t>& positions) {
  std::size_t best = positions[0];
  for (auto p : positions)
    if (x[p] > x[best] || (std::isnan(x[p]) && !std::isnan(x[best]))) best = p;
  return best;
}

Values empty(const Shape& shape) { return Values(static_cast<std::size_t>(shape.size())); }

// A pool with its loops: what the five records must compute.
struct Case {
  std::string label;
  Shape x, y;  // as the op sees them
  Pool options;
  Loops loops;

  Sample sample(const char* op, std::vector<Input> inputs, Call call, Call oracle) const {
    return {
        .op = op, .label = label, .inputs = std::move(inputs), .call = std::move(call), .oracle = std::move(oracle)};
  }

  Sample max() const {
    return sample(
        "max_pool", {{x, Domain::apart}}, [o = options](In in) { return std::vector{max_pool(in[0], o)}; },
        [c = *this](In in) {
          const auto v = in[0].to_vector<double>();
          auto result = empty(c.y);
          c.loops.for_each([&](std::size_t place, const auto& positions) { result[place] = v[largest(v, positions)]; });
          return std::vector{Tensor::from(result, c.y)};
        });
  }
  Sample max_backward() const {
    auto result = sample(
        "max_pool_backward", {{x, Domain::apart}, {y}},
        [o = options](In in) { return std::vector{max_pool_backward(in[0], in[1], o)}; },
        [c = *this](In in) {
          const auto v = in[0].to_vector<double>(), dy = in[1].to_vector<double>();
          auto dx = empty(c.x);
          c.loops.for_each([&](std::size_t place, const auto& positions) { dx[largest(v, positions)] += dy[place]; });
          return std::vector{Tensor::from(dx, c.x)};
        });
    result.inputs[0].differentiable = false;
    return result;
  }
  Sample max_select() const {
    auto result = sample(
        "max_pool_select", {{x, Domain::apart}, {x}},
        [o = options](In in) { return std::vector{max_pool_select(in[0], in[1], o)}; },
        [c = *this](In in) {
          const auto v = in[0].to_vector<double>(), g = in[1].to_vector<double>();
          auto chosen = empty(c.y);
          c.loops.for_each([&](std::size_t place, const auto& positions) { chosen[place] = g[largest(v, positions)]; });
          return std::vector{Tensor::from(chosen, c.y)};
        });
    result.inputs[0].differentiable = false;
    result.exact = true;
    return result;
  }
  Sample average() const {
    return sample(
        "avg_pool", {{x}}, [o = options](In in) { return std::vector{avg_pool(in[0], o)}; },
        [c = *this](In in) {
          const auto v = in[0].to_vector<double>();
          auto result = empty(c.y);
          c.loops.for_each([&](std::size_t place, const auto& positions) {
            for (auto p : positions) result[place] += v[p];
            result[place] /= static_cast<double>(positions.size());
          });
          return std::vector{Tensor::from(result, c.y)};
        });
  }
  Sample average_backward() const {
    const Ints input(std::span(x.begin() + 1, static_cast<std::size_t>(x.rank() - 2)));
    return sample(
        "avg_pool_backward", {{y}},
        [o = options, input](In in) { return std::vector{avg_pool_backward(in[0], input, o)}; },
        [c = *this](In in) {
          const auto dy = in[0].to_vector<double>();
          auto dx = empty(c.x);
          c.loops.for_each([&](std::size_t place, const auto& positions) {
            for (auto p : positions) dx[p] += dy[place] / static_cast<double>(positions.size());
          });
          return std::vector{Tensor::from(dx, c.x)};
        });
  }
};

std::vector<Sample> samples() {
  const std::vector<Case> cases{
      {"whole windows", {2, 4, 6, 3}, {2, 2, 3, 3}, {}, {{2, 4, 6, 3}, {2, 2, 3, 3}, {2, 2}, {2, 2}, false}},
      {"a rest is left over",
       {1, 5, 7, 2},
       {1, 2, 3, 2},
       {.size = {2, 2}},
       {{1, 5, 7, 2}, {1, 2, 3, 2}, {2, 2}, {2, 2}, false}},
      {"overlapping, same",
       {2, 5, 4, 2},
       {2, 3, 2, 2},
       {.size = {3}, .strides = {2}, .padding = same},
       {{2, 5, 4, 2}, {2, 3, 2, 2}, {3, 3}, {2, 2}, true}},
      {"stride 1",
       {1, 4, 5, 2},
       {1, 2, 4, 2},
       {.size = {3, 2}, .strides = {1}},
       {{1, 4, 5, 2}, {1, 2, 4, 2}, {3, 2}, {1, 1}, false}},
      {"stride beyond the size",
       {1, 7, 7, 1},
       {1, 3, 2, 1},
       {.size = {2, 1}, .strides = {3, 4}, .padding = same},
       {{1, 7, 7, 1}, {1, 3, 2, 1}, {2, 1}, {3, 4}, true}},
      {"more channels than lanes",
       {1, 3, 4, 19},
       {1, 2, 2, 19},
       {.padding = same},
       {{1, 3, 4, 19}, {1, 2, 2, 19}, {2, 2}, {2, 2}, true}},
      {"three by three, with a rest",
       {1, 7, 8, 17},
       {1, 2, 2, 17},
       {.size = {3}},
       {{1, 7, 8, 17}, {1, 2, 2, 17}, {3, 3}, {3, 3}, false}},
      {"gaps, more channels than lanes",
       {1, 8, 9, 16},
       {1, 3, 3, 16},
       {.size = {2}, .strides = {3}},
       {{1, 8, 9, 16}, {1, 3, 3, 16}, {2, 2}, {3, 3}, false}},
      {"one axis",
       {2, 7, 2},
       {2, 4, 2},
       {.size = {3}, .strides = {2}, .padding = same},
       {{2, 1, 7, 2}, {2, 1, 4, 2}, {1, 3}, {1, 2}, true}},
      {"three axes",
       {1, 1, 4, 5, 2},
       {1, 1, 2, 2, 2},
       {.size = {1, 2, 3}, .strides = {1, 2, 2}},
       {{1, 4, 5, 2}, {1, 2, 2, 2}, {2, 3}, {2, 2}, false}},
      {"no images", {0, 4, 4, 2}, {0, 2, 2, 2}, {}, {{0, 4, 4, 2}, {0, 2, 2, 2}, {2, 2}, {2, 2}, false}},
  };
  std::vector<Sample> list;
  for (const auto& c : cases)
    for (const auto& sample : {c.max(), c.max_backward(), c.max_select(), c.average(), c.average_backward()})
      list.push_back(sample);
  list.push_back({.op = "max_pool_backward",
                  .label = "equal values: the first takes all",
                  .inputs = {{.shape = {1, 2, 2, 1}, .differentiable = false}, {{1, 1, 1, 1}}},
                  .call = [](In in) { return std::vector{max_pool_backward(in[0] * 0, in[1], {})}; },
                  .oracle =
                      [](In in) {
                        return std::vector{Tensor::from(Values{in[1].item<double>(), 0, 0, 0}, {1, 2, 2, 1})};
                      },
                  .exact = true,
                  .nonfinite = false});
  return list;
}

std::vector<Mistake> mistakes() {
  return {
      {.op = "max_pool",
       .label = "rank",
       .call =
           [] {
             max_pool(zeros({4, 4}));
           },
       .code = ErrorCode::invalid_argument,
       .words = {"[max_pool]", "rank 3 to 5", "[4, 4]"}},
      {.op = "max_pool",
       .label = "window beyond the input",
       .call =
           [] {
             max_pool(zeros({1, 4, 2, 1}), {.size = {2, 3}});
           },
       .code = ErrorCode::invalid_argument,
       .words = {"[max_pool]", "covers 3", "at most 2", "tw::same"}},
      {.op = "avg_pool",
       .label = "integers",
       .call =
           [] {
             avg_pool(Tensor::from(std::vector<int>(4), {1, 2, 2, 1}));
           },
       .code = ErrorCode::invalid_argument,
       .words = {"[avg_pool]", "i32", "cast"}},
      {.op = "avg_pool",
       .label = "size of zero",
       .call =
           [] {
             avg_pool(zeros({1, 4, 4, 1}), {.size = {0}});
           },
       .code = ErrorCode::invalid_argument,
       .words = {"[avg_pool]", "window sizes of at least 1", "[0, 0]"}},
  };
}

}  // namespace

TW_SAMPLES { return {samples(), mistakes()}; }
