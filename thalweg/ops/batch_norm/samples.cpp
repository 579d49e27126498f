#include "tests/support/sample.h"
#include "thalweg/ops/batch_norm/batch_norm.h"
#include "thalweg/ops/batch_norm/gradients.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

constexpr double epsilon = 1e-2;

void add_samples(std::vector<Sample>& list, Shape x) {
  const Shape channels{x.last()};
  // An infinite value makes the mean NaN, not infinite: the kernel sums differences from a first guess.
  list.push_back({.op = "batch_norm",
                  .label = x.to_string(),
                  .inputs = {{x}, {channels}, {channels}},
                  .call =
                      [](In in) {
                        const auto [y, mean, variance] = batch_norm(in[0], in[1], in[2], {.epsilon = epsilon});
                        return std::vector{y, mean, variance};
                      },
                  .tolerance = 4,
                  .nonfinite = false});
  list.push_back({.op = "batch_norm",
                  .label = "without the mean, " + x.to_string(),
                  .inputs = {{x}, {channels}, {channels}},
                  .call =
                      [](In in) {
                        const auto [y, mean, variance] = batch_norm(in[0], in[1], in[2], {.epsilon = epsilon});
                        return std::vector{y, variance};
                      },
                  .tolerance = 4});
  list.push_back({.op = "batch_norm",
                  .label = "statistics only, " + x.to_string(),
                  .inputs = {{x}},
                  .call =
                      [=](In in) {
                        const Tensor ones =
                            Tensor::from(std::vector<double>(static_cast<std::size_t>(x.last()), 1), channels);
                        const auto [y, mean, variance] = batch_norm(in[0], ones, ones);
                        return std::vector{variance * mean};
                      },
                  .dtypes = {f64},
                  .tolerance = 4});
  list.push_back({.op = "batch_norm_backward",
                  .label = x.to_string(),
                  .inputs = {{x}, {channels}, {x}},
                  .call =
                      [=](In in) {
                        const auto [mean, variance] = moments(reshape(in[0], {-1, x.last()}), {.axes = 0});
                        const auto g =
                            batch_norm_backward(in[0], in[1], mean, rsqrt(variance + epsilon), in[2], epsilon);
                        return std::vector{g.x, g.scale, g.offset};
                      },
                  .dtypes = {f32, f64},
                  .tolerance = 8,
                  .nonfinite = false});
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  for (const auto& shape : {Shape{5, 3}, Shape{2, 3, 4, 2}, Shape{40, 19}, Shape{1, 4}}) add_samples(list, shape);
  return {.samples = list,
          .mistakes = {{.op = "batch_norm",
                        .label = "scale",
                        .call =
                            [] {
                              batch_norm(zeros({2, 3}), zeros({2}), zeros({3}));
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[batch_norm]", "[3]", "got [2]"}},
                       {.op = "batch_norm",
                        .label = "no rows",
                        .call =
                            [] {
                              batch_norm(zeros({0, 3}), zeros({3}), zeros({3}));
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[batch_norm]", "at least one row", "[0, 3]"}}}};
}
