#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/cross_entropy/cross_entropy.h"
#include "thalweg/ops/cross_entropy/gradients.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/softmax/softmax.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

struct Case {
  Shape shape;       // of the logits
  double raise = 0;  // added to every logit, exactly in f32 and f64

  std::string label() const {
    return shape.to_string() + (raise == 0 ? "" : ", logits about " + std::to_string(raise));
  }
  Shape losses() const { return shape.without(shape.rank() - 1); }
  std::vector<DType> dtypes() const { return raise == 0 ? std::vector{f32, f64, f16, bf16} : std::vector{f32, f64}; }
  Tensor raised(const Tensor& logits) const { return raise == 0 ? logits : logits + raise; }
};

// Labels are made by a softmax: the gradient rule holds for rows that sum to 1.
void add_dense(std::vector<Sample>& list, const Case& c) {
  list.push_back({.op = "softmax_cross_entropy",
                  .label = c.label(),
                  .inputs = {{c.shape}, {c.shape}},
                  .call = [c](In in) { return std::vector{softmax_cross_entropy(softmax(in[0]), c.raised(in[1]))}; },
                  .dtypes = c.dtypes(),
                  .nonfinite = false});
  const auto backward = [c](In in) {
    const Tensor logits = c.raised(in[1]), statistics = softmax_cross_entropy_forward(in[0], logits).statistics;
    return std::vector{softmax_cross_entropy_backward(in[0], logits, statistics, in[2])};
  };
  list.push_back({.op = "softmax_cross_entropy_backward",
                  .label = c.label(),
                  .inputs = {{c.shape}, {c.shape}, {c.losses()}},
                  .call = backward,
                  .dtypes = {f32, f64},
                  .nonfinite = false});
}

void add_sparse(std::vector<Sample>& list, const Case& c, DType labels) {
  const Input label{.shape = c.losses(), .domain = Domain::index, .limit = c.shape.last(), .index_dtype = labels};
  list.push_back({.op = "sparse_softmax_cross_entropy",
                  .label = c.label(),
                  .inputs = {label, {c.shape}},
                  .call = [c](In in) { return std::vector{sparse_softmax_cross_entropy(in[0], c.raised(in[1]))}; },
                  .dtypes = c.dtypes()});
  const auto backward = [c](In in) {
    const Tensor logits = c.raised(in[1]), statistics = sparse_softmax_cross_entropy_forward(in[0], logits).statistics;
    return std::vector{sparse_softmax_cross_entropy_backward(in[0], logits, statistics, in[2])};
  };
  list.push_back({.op = "sparse_softmax_cross_entropy_backward",
                  .label = c.label(),
                  .inputs = {label, {c.shape}, {c.losses()}},
                  .call = backward,
                  .dtypes = {f32, f64},
                  .nonfinite = false});
}

std::vector<Mistake> mistakes() {
  return {
      {.op = "softmax_cross_entropy",
       .label = "shapes",
       .call =
           [] {
             softmax_cross_entropy(zeros({2, 3}), zeros({2, 4}));
           },
       .code = ErrorCode::invalid_argument,
       .words = {"[softmax_cross_entropy]", "[2, 4]", "got [2, 3]", "sparse"}},
      {.op = "sparse_softmax_cross_entropy",
       .label = "float labels",
       .call =
           [] {
             sparse_softmax_cross_entropy(zeros({2}), zeros({2, 4}));
           },
       .code = ErrorCode::invalid_argument,
       .words = {"[sparse_softmax_cross_entropy]", "i32 or i64", "f32"}},
      {.op = "sparse_softmax_cross_entropy",
       .label = "shape of the labels",
       .call =
           [] {
             sparse_softmax_cross_entropy(Tensor::from(std::vector<int>{1, 1}, {2, 1}), zeros({2, 4}));
           },
       .code = ErrorCode::invalid_argument,
       .words = {"expected labels [2]", "got [2, 1]"}},
      {.op = "sparse_softmax_cross_entropy",
       .label = "label out of range",
       .call =
           [] {
             sparse_softmax_cross_entropy(Tensor::from(std::vector<int>{1, 0, 2, 4}, {2, 2}), zeros({2, 2, 4}));
           },
       .code = ErrorCode::out_of_range,
       .words = {"[sparse_softmax_cross_entropy]", "label 4 at [1, 1]", "0 to 3", "4 classes"}},
      {.op = "sparse_softmax_cross_entropy",
       .label = "negative label",
       .call =
           [] {
             sparse_softmax_cross_entropy(Tensor::from(std::vector<std::int64_t>{-1}, {1}), zeros({1, 4}));
           },
       .code = ErrorCode::out_of_range,
       .words = {"label -1 at [0]"}},
  };
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  const std::vector<Case> cases{{{4, 5}},   {{2, 3, 21}}, {{6}},           {{0, 4}},        {{3, 1}},
                                {{35, 10}}, {{4, 40}},    {{4, 21}, 3000}, {{4, 21}, -3000}};
  for (const auto& c : cases) {
    add_dense(list, c);
    add_sparse(list, c, c.shape.rank() == 2 ? i64 : i32);
  }
  return {list, mistakes()};
}
