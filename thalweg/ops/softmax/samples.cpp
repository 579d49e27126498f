#include "tests/support/sample.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/softmax/gradients.h"
#include "thalweg/ops/softmax/softmax.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;
using Along = Tensor (*)(const Tensor&, std::int64_t);
using Backward = Tensor (*)(const Tensor&, const Tensor&);

void add(std::vector<Sample>& list, const char* op, Along f) {
  const auto with_axis = [&](const char* label, Shape shape, std::int64_t axis) {
    list.push_back(
        {.op = op, .label = label, .inputs = {{shape}}, .call = [=](In in) { return std::vector{f(in[0], axis)}; }});
  };
  with_axis("rows", {3, 5}, -1);
  with_axis("longer than a vector", {2, 37}, 1);
  with_axis("one row", {7}, 0);
  with_axis("first axis", {4, 3}, 0);
  with_axis("middle axis", {2, 5, 3}, -2);
  with_axis("one class", {3, 1}, -1);
  with_axis("no rows", {0, 4}, -1);
  with_axis("no classes", {3, 0}, -1);
  list.push_back({.op = op,
                  .label = "large values",
                  .inputs = {{{2, 6}}},
                  .call = [=](In in) { return std::vector{f(in[0] * 256, -1)}; },
                  .dtypes = {f32, f64},
                  .gradient_order = 0});
}

void add_backward(std::vector<Sample>& list, const char* op, Backward f) {
  for (const auto& shape : {Shape{3, 5}, Shape{2, 2, 19}, Shape{0, 3}})
    list.push_back({.op = op,
                    .label = shape.to_string(),
                    .inputs = {{shape, Domain::unit}, {shape}},
                    .call = [=](In in) { return std::vector{f(in[0], in[1])}; },
                    .dtypes = {f32, f64}});
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  add(list, "softmax", softmax);
  add(list, "log_softmax", log_softmax);
  add_backward(list, "softmax_backward", softmax_backward);
  add_backward(list, "log_softmax_backward", log_softmax_backward);
  return {.samples = list,
          .mistakes = {{.op = "softmax",
                        .label = "axis",
                        .call =
                            [] {
                              softmax(Tensor::from(std::vector<float>(6), {2, 3}), 2);
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[softmax]", "axis 2", "rank 2"}},
                       {.op = "log_softmax",
                        .label = "integers",
                        .call =
                            [] {
                              log_softmax(Tensor::from(std::vector<int>(6), {2, 3}));
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[log_softmax]", "i32", "cast"}}}};
}
