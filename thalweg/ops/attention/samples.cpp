#include <cmath>

#include "tests/support/sample.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/attention/gradients.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/diagonal/diagonal.h"
#include "thalweg/ops/dropout/dropout.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/pad/pad.h"
#include "thalweg/ops/softmax/softmax.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

constexpr std::uint64_t seed = 11;  // of dropout

struct Case {
  std::string label;
  Shape q, k, v;
  bool causal = false;
  std::vector<Input> mask = {};  // none, or one
  std::optional<double> scale = std::nullopt;
  double raise = 0;  // see raised
  double dropout = 0;

  Attention options(const Tensor& seen) const {
    return {.causal = causal, .mask = seen, .scale = scale, .dropout = dropout, .seed = seed};
  }
};

// tw::dropout on the matrix of weights.
Call dropped_in_single_ops(const Case& c) {
  return [c](In in) {
    Tensor seen = in.size() == 4 ? in[3] : ones({}, boolean);
    if (c.causal) seen = seen & cast(band_part(ones({c.q[2], c.k[2]}), -1, 0), boolean);
    const double scale = c.scale.value_or(1 / std::sqrt(static_cast<double>(c.q[3])));
    const Tensor scores = where(seen, matmul(in[0], in[1], {.transpose_b = true}) * scale, -1e30);
    return std::vector{matmul(dropout(where(seen, softmax(scores), 0), c.dropout, {.seed = seed}), in[2])};
  };
}

// x with one more column, of this value.
Tensor with_column(const Tensor& x, double value) { return pad(x, {{0, 0}, {0, 0}, {0, 0}, {0, 1}}, {.value = value}); }

// Queries and keys of which every product is greater by c.raise, and exact in f32.
std::pair<Tensor, Tensor> raised(const Case& c, In in) {
  if (c.raise == 0) return {in[0], in[1]};
  return {with_column(in[0], c.raise / 64), with_column(in[1], 64)};
}

void add_samples(std::vector<Sample>& list, const Case& c) {
  const bool all_seen = c.mask.empty() && !c.causal;  // a hidden NaN may still spread
  Sample forward{.op = "attention",
                 .label = c.label,
                 .inputs = {{c.q}, {c.k}, {c.v}},
                 .call = {},
                 .tolerance = 2,
                 .nonfinite = all_seen};
  if (c.raise != 0) forward.dtypes = {f32, f64};  // the others do not hold the products
  forward.inputs.insert(forward.inputs.end(), c.mask.begin(), c.mask.end());
  forward.call = [c](In in) {
    const auto [q, k] = raised(c, in);
    return std::vector{attention(q, k, in[2], c.options(in.size() == 4 ? in[3] : Tensor()))};
  };
  if (c.dropout > 0) forward.oracle = dropped_in_single_ops(c);
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
    const Attention options = c.options(in.size() == 5 ? in[4] : Tensor());
    const auto [q, k] = raised(c, in);
    const auto [o, statistics] = attention_forward(q, k, in[2], options);
    const auto g = attention_backward(q, k, in[2], o, statistics, in[3], options);
    return std::vector{g.q, g.k, g.v};
  };
  list.push_back(backward);
}

// Operands as passes over graphs let them lie: the inputs, and the gradient of o.
void add_layout(std::vector<Sample>& list, const std::string& label, AttentionLayout layout,
                const std::vector<Input>& operands, const Shape& o, const Attention& options) {
  Sample forward{.op = "attention", .label = label, .inputs = operands, .call = {}, .tolerance = 2, .nonfinite = false};
  forward.call = [=](In in) {
    const auto made = attention_forward(layout, {in.begin(), in.end()}, options);
    return std::vector{made.o};
  };
  list.push_back(forward);
  Sample backward{.op = "attention_backward",
                  .label = label,
                  .inputs = operands,
                  .call = {},
                  .dtypes = {f32, f64},
                  .tolerance = 8,
                  .nonfinite = false};
  backward.inputs.push_back({o});
  backward.call = [=](In in) {
    Tensors given(in.begin(), in.end() - 1);
    const auto [made, statistics] = attention_forward(layout, given, options);
    for (const Tensor& tensor : {made, statistics, in.back()}) given.push_back(tensor);
    const Tensors gradients = attention_backward(layout, given, options);
    return std::vector(gradients.begin(), gradients.end());
  };
  list.push_back(backward);
}

Input mask(Shape shape) { return {.shape = shape, .domain = Domain::boolean}; }

std::vector<Mistake> mistakes() {
  const auto wrong = [](const std::string& label, const std::function<void()>& call,
                        const std::vector<std::string>& words) {
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
      wrong("dropout of everything", [=] { attention(q, q, q, {.dropout = 1}); },
            {"[attention]", "dropout rate from 0 to less than 1", "got 1"}),
      wrong("mask of whole numbers beside dropout", [=] { attention(q, q, q, {.mask = arange(4), .dropout = 0.5}); },
            {"[attention]", "boolean mask", "i64"}),
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
      {.label = "negative scale", .q = q, .k = q, .v = q, .causal = true, .scale = -0.5},
      {.label = "scale of zero", .q = q, .k = q, .v = q, .causal = true, .scale = 0},
      {.label = "large scores", .q = q, .k = q, .v = q, .scale = 1, .raise = 3008},
      {.label = "large negative scores", .q = q, .k = q, .v = q, .mask = {mask({5, 5})}, .scale = 1, .raise = -3008},
      {.label = "no queries", .q = {1, 2, 0, 4}, .k = {1, 2, 3, 4}, .v = {1, 2, 3, 4}},
      {.label = "no keys", .q = {1, 2, 3, 4}, .k = {1, 2, 0, 4}, .v = {1, 2, 0, 4}},
      {.label = "no batch", .q = {0, 2, 3, 4}, .k = {0, 2, 3, 4}, .v = {0, 2, 3, 4}},
      {.label = "dropout", .q = q, .k = q, .v = q, .dropout = 0.25},
      {.label = "dropout, causal",
       .q = {2, 1, 8, 3},
       .k = {2, 1, 8, 3},
       .v = {2, 1, 8, 2},
       .causal = true,
       .dropout = 0.5},
      {.label = "dropout and mask",
       .q = q,
       .k = {2, 3, 7, 4},
       .v = {2, 3, 7, 4},
       .mask = {mask({2, 1, 5, 7})},
       .dropout = 0.25},
      {.label = "dropout, all hidden at times",
       .q = q,
       .k = {2, 3, 1, 4},
       .v = {2, 3, 1, 4},
       .mask = {mask({5, 1})},
       .dropout = 0.5},
      {.label = "dropout in several blocks",
       .q = {1, 2, 67, 8},
       .k = {1, 2, 131, 8},
       .v = {1, 2, 131, 8},
       .causal = true,
       .dropout = 0.1},
      {.label = "dropout without keys", .q = {1, 2, 3, 4}, .k = {1, 2, 0, 4}, .v = {1, 2, 0, 4}, .dropout = 0.5},
  };
  std::vector<Sample> list;
  for (const auto& c : cases) add_samples(list, c);
  const Shape k{2, 7, 3, 4}, o{2, 5, 3, 4};
  add_layout(list, "time before heads", AttentionLayout::time_first, {{o}, {k}, {k}}, o, {.causal = true});
  add_layout(list, "packed", AttentionLayout::packed, {{{2, 5, 3, 3, 4}}}, o, {.causal = true});
  add_layout(list, "packed, dropout", AttentionLayout::packed, {{{2, 5, 3, 3, 4}}}, o, {.dropout = 0.25, .seed = seed});
  return {list, mistakes()};
}
