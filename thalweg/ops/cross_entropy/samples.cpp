#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/cross_entropy/cross_entropy.h"
#include "thalweg/ops/cross_entropy/gradients.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/softmax/softmax.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

Tensor lse(const Tensor& logits) { return logsumexp(logits, {.axes = -1}); }

// Labels are made by a softmax: the gradient rule holds for rows that sum to 1.
void add_dense(std::vector<Sample>& list, Shape shape) {
  const Shape losses = shape.without(shape.rank() - 1);
  list.push_back({.op = "softmax_cross_entropy",
                  .label = shape.to_string(),
                  .inputs = {{shape}, {shape}},
                  .call = [](In in) { return std::vector{softmax_cross_entropy(softmax(in[0]), in[1])}; },
                  .nonfinite = false});
  list.push_back(
      {.op = "softmax_cross_entropy_backward",
       .label = shape.to_string(),
       .inputs = {{shape}, {shape}, {losses}},
       .call = [](In in) { return std::vector{softmax_cross_entropy_backward(in[0], in[1], lse(in[1]), in[2])}; },
       .dtypes = {f32, f64},
       .nonfinite = false});
}

void add_sparse(std::vector<Sample>& list, Shape shape, DType labels) {
  const Shape losses = shape.without(shape.rank() - 1);
  const Input label{.shape = losses, .domain = Domain::index, .limit = shape.last(), .index_dtype = labels};
  list.push_back(
      {.op = "sparse_softmax_cross_entropy", .label = shape.to_string(), .inputs = {label, {shape}}, .call = [](In in) {
         return std::vector{sparse_softmax_cross_entropy(in[0], in[1])};
       }});
  list.push_back(
      {.op = "sparse_softmax_cross_entropy_backward",
       .label = shape.to_string(),
       .inputs = {label, {shape}, {losses}},
       .call =
           [](In in) { return std::vector{sparse_softmax_cross_entropy_backward(in[0], in[1], lse(in[1]), in[2])}; },
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
  for (const auto& shape : {Shape{4, 5}, Shape{2, 3, 21}, Shape{6}, Shape{0, 4}, Shape{3, 1}}) {
    add_dense(list, shape);
    add_sparse(list, shape, shape.rank() == 2 ? i64 : i32);
  }
  return {list, mistakes()};
}
