#include <cmath>

#include "tests/support/sample.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/attention/gradients.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

struct Case {
  std::string label;
  Shape q, k, v;
  bool causal = false;
  std::vector<Input> mask = {};  // none, or one
  std::optional<double> scale = std::nullopt;

  Attention options(const Tensor& seen) const { return {.causal = causal, .mask = seen, .scale = scale}; }
};

Tensor statistics(const Case& c, In in, const Tensor& mask) {
  Tensor scores =
      matmul(in[0], in[1], {.transpose_b = true}) * c.scale.value_or(1 / std::sqrt(static_cast<double>(c.q.last())));
  if (mask.defined()) scores = where(mask, scores, -INFINITY);
  if (c.causal) scores = where(expand_dims(arange(c.q[2]), 1) >= arange(c.k[2]), scores, -INFINITY);
  const Tensor top = reduce_max(scores, {.axes = -1, .keepdims = true}), hidden = top == -INFINITY;
  const Tensor total = reduce_sum(exp(scores - where(hidden, 0, top)), {.axes = -1, .keepdims = true});
  return where(hidden, 0, concat({top * 1.4426950408889634, total}, -1));
}

void add_samples(std::vector<Sample>& list, const Case& c) {
  const bool all_seen = c.mask.empty() && !c.causal;  // a hidden NaN may still spread
  Sample forward{.op = "attention",
                 .label = c.label,
                 .inputs = {{c.q}, {c.k}, {c.v}},
                 .call = {},
                 .tolerance = 2,
                 .nonfinite = all_seen};
  forward.inputs.insert(forward.inputs.end(), c.mask.begin(), c.mask.end());
  forward.call = [c](In in) {
    return std::vector{attention(in[0], in[1], in[2], c.options(in.size() == 4 ? in[3] : Tensor()))};
  };
  list.push_back(forward);
  const Shape d_o = c.q.with(3, c.v.last());
  Sample backward{.op = "attention_backward",
                  .label = c.label,
                  .inputs = {{c.q}, {c.k}, {c.v}, {d_o}},
                  .call = {},
                  .dtypes = {f32, f64},
                  .tolerance = 8,
                  .nonfinite = false};
  backward.inputs.insert(backward.inputs.end(), c.mask.begin(), c.mask.end());
  backward.call = [c](In in) {
    const Tensor mask = in.size() == 5 ? in[4] : Tensor();
    const Tensor o = attention(in[0], in[1], in[2], c.options(mask));
    const auto g = attention_backward(in[0], in[1], in[2], o, statistics(c, in, mask), in[3], c.options(mask));
    return std::vector{g.q, g.k, g.v};
  };
  list.push_back(backward);
}

Input mask(Shape shape) { return {.shape = shape, .domain = Domain::boolean}; }

std::vector<Mistake> mistakes() {
  const auto wrong = [](std::string label, std::function<void()> call, std::vector<std::string> words) {
    return Mistake{
        .op = "attention", .label = label, .call = call, .code = ErrorCode::invalid_argument, .words = words};
  };
  const Tensor q = zeros({2, 3, 4, 5});
  return {
      wrong("rank",
            [=] {
              attention(zeros({4, 5}), q, q);
            },
            {"[attention]", "q of rank 4", "[4, 5]"}),
      wrong("size of keys",
            [=] {
              attention(q, zeros({2, 3, 4, 6}), q);
            },
            {"[attention]", "keys of size 5", "[2, 3, 4, 6]"}),
      wrong("heads",
            [=] {
              attention(q, zeros({2, 1, 4, 5}), q);
            },
            {"[attention]", "3 heads", "[2, 1, 4, 5]", "repeat"}),
      wrong("number of values",
            [=] {
              attention(q, q, zeros({2, 3, 7, 5}));
            },
            {"[attention]", "4 values", "[2, 3, 7, 5]"}),
      wrong("mask of numbers",
            [=] {
              attention(q, q, q, {.mask = zeros({4, 4})});
            },
            {"[attention]", "boolean mask", "f32"}),
      wrong("shape of the mask",
            [=] {
              attention(q, q, q, {.mask = Tensor::from(std::vector<bool>(12), {3, 4})});
            },
            {"[attention]", "[2, 3, 4, 4]", "got [3, 4]"}),
  };
}

}  // namespace

TW_SAMPLES {
  const Shape q{2, 3, 5, 4};
  const std::vector<Case> cases{
      {.label = "all seen", .q = q, .k = q, .v = q},
      {.label = "other sizes", .q = {1, 2, 3, 5}, .k = {1, 2, 7, 5}, .v = {1, 2, 7, 2}, .scale = 0.25},
      {.label = "causal", .q = q, .k = q, .v = q, .causal = true},
      {.label = "causal, more queries", .q = {1, 1, 6, 3}, .k = {1, 1, 4, 3}, .v = {1, 1, 4, 3}, .causal = true},
      {.label = "mask for all", .q = q, .k = q, .v = q, .mask = {mask({2, 3, 5, 5})}},
      {.label = "mask of rows and keys", .q = q, .k = q, .v = q, .mask = {mask({2, 1, 1, 5})}},
      {.label = "mask and causal", .q = q, .k = q, .v = q, .causal = true, .mask = {mask({5, 5})}},
      {.label = "all hidden at times", .q = q, .k = {2, 3, 1, 4}, .v = {2, 3, 1, 4}, .mask = {mask({5, 1})}},
      {.label = "several blocks", .q = {1, 2, 67, 8}, .k = {1, 2, 131, 8}, .v = {1, 2, 131, 8}, .causal = true},
      {.label = "no queries", .q = {1, 2, 0, 4}, .k = {1, 2, 3, 4}, .v = {1, 2, 3, 4}},
      {.label = "no keys", .q = {1, 2, 3, 4}, .k = {1, 2, 0, 4}, .v = {1, 2, 0, 4}},
      {.label = "no batch", .q = {0, 2, 3, 4}, .k = {0, 2, 3, 4}, .v = {0, 2, 3, 4}},
  };
  std::vector<Sample> list;
  for (const auto& c : cases) add_samples(list, c);
  return {list, mistakes()};
}
