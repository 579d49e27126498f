#include "tests/support/sample.h"
#include "thalweg/ops/cumulative/cumulative.h"
#include "thalweg/ops/cumulative/recurrence.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;
using Values = std::vector<double>;

// body(running, index) along the axis, in order; the running value starts anew for each column.
template <class Body>
void walk(const Shape& shape, int axis, bool reverse, double start, const Body& body) {
  const std::int64_t n = shape[axis], inner = shape.product(axis + 1, shape.rank());
  for (std::int64_t column = 0; column < shape.product(0, axis) * inner; ++column) {
    double running = start;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = (column / inner * n + (reverse ? n - 1 - i : i)) * inner + column % inner;
      body(running, static_cast<std::size_t>(at));
    }
  }
}

Call accumulated(const Cumulative& options, bool product) {
  return [options, product](In in) {
    const auto x = in[0].data<double>();
    Values y(x.size());
    const int axis = static_cast<int>(options.axis < 0 ? options.axis + in[0].rank() : options.axis);
    walk(in[0].shape(), axis, options.reverse, product ? 1 : 0, [&](double& running, std::size_t i) {
      const double before = running;
      running = product ? running * x[i] : running + x[i];
      y[i] = options.exclusive ? before : running;
    });
    return std::vector{Tensor::from(y, in[0].shape())};
  };
}

void add(std::vector<Sample>& samples, const char* label, const Shape& shape, const Cumulative& options) {
  samples.push_back({.op = "cumsum",
                     .label = label,
                     .inputs = {{.shape = shape, .domain = Domain::integers}},
                     .call = [options](In in) { return std::vector{cumsum(in[0], options)}; },
                     .oracle = accumulated(options, false),
                     .exact = true});
  samples.push_back({.op = "cumprod",
                     .label = label,
                     .inputs = {{.shape = shape, .domain = Domain::nonzero}},
                     .call = [options](In in) { return std::vector{cumprod(in[0], options)}; },
                     .oracle = accumulated(options, true),
                     .tolerance = 4});
}

Sample recurrence(const char* label, bool reverse) {
  return {.op = "linear_recurrence",
          .label = label,
          .inputs = {{{2, 5, 3}}, {{2, 5, 3}}},
          .call = [reverse](In in) { return std::vector{linear_recurrence(in[0], in[1], 1, reverse)}; },
          .oracle =
              [reverse](In in) {
                const auto a = in[0].data<double>(), b = in[1].data<double>();
                Values h(a.size());
                walk(in[0].shape(), 1, reverse, 0,
                     [&](double& running, std::size_t i) { h[i] = running = a[i] * running + b[i]; });
                return std::vector{Tensor::from(h, in[0].shape())};
              },
          .tolerance = 2};
}

}  // namespace

TW_SAMPLES {
  Samples all;
  add(all.samples, "first axis", {5, 3}, {});
  add(all.samples, "exclusive", {2, 5}, {.axis = 1, .exclusive = true});
  add(all.samples, "reverse", {2, 5, 3}, {.axis = 1, .reverse = true});
  add(all.samples, "exclusive and reverse, last axis", {2, 5}, {.axis = -1, .exclusive = true, .reverse = true});
  add(all.samples, "one element", {3, 1}, {.axis = 1, .exclusive = true});
  add(all.samples, "empty", {3, 0}, {.axis = 1});
  add(all.samples, "no rows", {0, 3}, {.axis = 1, .reverse = true});
  add(all.samples, "several tiles", {2, 4, 515}, {.axis = 1});
  all.samples.push_back(recurrence("forward", false));
  all.samples.push_back(recurrence("reverse", true));
  all.mistakes = {
      {"cumsum",
       "axis out of range",
       [] {
         cumsum(Tensor::from(Values(6), {2, 3}), {.axis = 2});
       },
       ErrorCode::invalid_argument,
       {"[cumsum]", "axis 2", "rank 2"}},
      {"cumprod",
       "of booleans",
       [] { cumprod(Tensor::from(std::vector<bool>(2), {2})); },
       ErrorCode::invalid_argument,
       {"[cumprod]", "boolean"}},
  };
  return all;
}
