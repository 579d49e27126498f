#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/layer_norm/gradients.h"
#include "thalweg/ops/layer_norm/layer_norm.h"
#include "thalweg/ops/reduce/reduce.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

constexpr double epsilon = 1e-2;

void add_norms(std::vector<Sample>& list, const char* label, Shape x, Shape scale) {
  list.push_back({.op = "layer_norm",
                  .label = label,
                  .inputs = {{x}, {scale}, {scale}},
                  .call = [](In in) { return std::vector{layer_norm(in[0], in[1], in[2], {.epsilon = epsilon})}; },
                  .tolerance = 2});
  list.push_back({.op = "rms_norm",
                  .label = label,
                  .inputs = {{x}, {scale}},
                  .call = [](In in) { return std::vector{rms_norm(in[0], in[1], {.epsilon = epsilon})}; },
                  .tolerance = 2});
}

void add_gradients(std::vector<Sample>& list, Shape x) {
  const Shape row{x.last()};
  list.push_back({.op = "layer_norm_backward",
                  .label = x.to_string(),
                  .inputs = {{x}, {row}, {x}},
                  .call =
                      [](In in) {
                        const auto [mean, variance] = moments(in[0], {.axes = -1});
                        const auto g =
                            layer_norm_backward(in[0], in[1], mean, rsqrt(variance + epsilon), in[2], epsilon);
                        return std::vector{g.x, g.scale, g.offset};
                      },
                  .dtypes = {f32, f64},
                  .tolerance = 4,
                  .nonfinite = false});
  list.push_back({.op = "rms_norm_backward",
                  .label = x.to_string(),
                  .inputs = {{x}, {row}, {x}},
                  .call =
                      [](In in) {
                        const Tensor rstd = rsqrt(reduce_mean(square(in[0]), {.axes = -1}) + epsilon);
                        const auto g = rms_norm_backward(in[0], in[1], rstd, in[2], epsilon);
                        return std::vector{g.x, g.scale};
                      },
                  .dtypes = {f32, f64},
                  .tolerance = 4,
                  .nonfinite = false});
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  add_norms(list, "rows", {4, 6}, {6});
  add_norms(list, "longer than a vector", {2, 3, 37}, {37});
  add_norms(list, "one row", {5}, {5});
  add_norms(list, "two axes", {2, 3, 4}, {3, 4});
  add_norms(list, "no rows", {0, 3}, {3});
  for (const auto& shape : {Shape{4, 6}, Shape{2, 3, 21}, Shape{7}, Shape{0, 3}}) add_gradients(list, shape);
  return {.samples = list,
          .mistakes = {{.op = "layer_norm",
                        .label = "scale",
                        .call =
                            [] {
                              layer_norm(zeros({2, 3}), zeros({2}), zeros({2}));
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[layer_norm]", "end of x [2, 3]", "got [2]"}},
                       {.op = "layer_norm",
                        .label = "offset",
                        .call =
                            [] {
                              layer_norm(zeros({2, 3}), zeros({3}), zeros({1}));
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[layer_norm]", "offset [3]", "got [1]"}},
                       {.op = "rms_norm",
                        .label = "epsilon",
                        .call =
                            [] {
                              rms_norm(zeros({2, 3}), zeros({3}), {.epsilon = -1});
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[rms_norm]", "epsilon", "-1"}}}};
}
