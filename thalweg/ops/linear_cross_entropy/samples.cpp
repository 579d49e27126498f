#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/linear_cross_entropy/gradients.h"
#include "thalweg/ops/linear_cross_entropy/linear_cross_entropy.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

struct Case {
  std::string label;
  std::int64_t rows, size, classes;
  bool transpose_w = false, bias = false;

  LinearCrossEntropy options(In in) const { return {.transpose_w = transpose_w, .bias = bias ? in.back() : Tensor()}; }
  Input labels() const { return {.shape = {rows}, .domain = Domain::index, .limit = classes}; }
  Input weights() const { return {transpose_w ? Shape{classes, size} : Shape{size, classes}}; }
};

void add_samples(std::vector<Sample>& list, const Case& c) {
  Sample forward{.op = "linear_cross_entropy",
                 .label = c.label,
                 .inputs = {c.labels(), {{c.rows, c.size}}, c.weights()},
                 .call = [c](In in) { return std::vector{linear_cross_entropy(in[0], in[1], in[2], c.options(in))}; },
                 .tolerance = 4,
                 .nonfinite = false};
  Sample backward{.op = "linear_cross_entropy_backward",
                  .label = c.label,
                  .inputs = {c.labels(), {{c.rows, c.size}}, c.weights(), {{c.rows}}},
                  .call = {},
                  .dtypes = {f32, f64},
                  .tolerance = 4,
                  .nonfinite = false};
  backward.call = [c](In in) {
    const LinearCrossEntropy options = c.options(in);
    const Tensor statistics = linear_cross_entropy_forward(in[0], in[1], in[2], options).statistics;
    const auto [x, w, bias] = linear_cross_entropy_backward(in[0], in[1], in[2], statistics, in[3], options);
    return c.bias ? std::vector{x, w, bias} : std::vector{x, w};
  };
  if (c.bias)
    for (auto* sample : {&forward, &backward}) sample->inputs.push_back({{c.classes}});
  list.push_back(forward);
  list.push_back(backward);
}

std::vector<Mistake> mistakes() {
  const auto labels = [](std::int64_t label) { return Tensor::from(std::vector{label, label}, {2}); };
  return {
      {.op = "linear_cross_entropy",
       .label = "size of w",
       .call =
           [=] {
             linear_cross_entropy(labels(0), zeros({2, 3}), zeros({4, 3}));
           },
       .code = ErrorCode::invalid_argument,
       .words = {"[linear_cross_entropy]", "[2, 3]", "got [4, 3]", "transpose_w"}},
      {.op = "linear_cross_entropy",
       .label = "number of labels",
       .call =
           [=] {
             linear_cross_entropy(labels(0), zeros({3, 3}), zeros({3, 4}));
           },
       .code = ErrorCode::invalid_argument,
       .words = {"labels [3]", "got [2]"}},
      {.op = "linear_cross_entropy",
       .label = "shape of the bias",
       .call =
           [=] {
             linear_cross_entropy(labels(0), zeros({2, 3}), zeros({3, 4}), {.bias = zeros({3})});
           },
       .code = ErrorCode::invalid_argument,
       .words = {"bias [4]", "got [3]"}},
      {.op = "linear_cross_entropy",
       .label = "label out of range",
       .call =
           [=] {
             linear_cross_entropy(labels(4), zeros({2, 3}), zeros({3, 4}));
           },
       .code = ErrorCode::out_of_range,
       .words = {"[linear_cross_entropy]", "label 4 at [0]", "0 to 3"}},
  };
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  add_samples(list, {"plain", 5, 4, 7});
  add_samples(list, {"bias", 5, 4, 7, false, true});
  add_samples(list, {"transposed", 6, 3, 9, true});
  add_samples(list, {"transposed, bias", 6, 3, 9, true, true});
  add_samples(list, {"no rows", 0, 3, 5, false, true});
  add_samples(list, {"one class", 3, 2, 1});
  return {list, mistakes()};
}
