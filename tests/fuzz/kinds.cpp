#include "tests/fuzz/program.h"

namespace fuzz {
namespace {

using tw::Tensor;
using List = std::vector<Tensor>;

std::int64_t examples(const Tensor& x) { return x.shape()[0]; }
std::int64_t features(const Tensor& x) { return x.shape()[1]; }
Tensor pairs(const Tensor& x) { return tw::reshape(x, {examples(x), features(x) / 2, 2}); }  // [n, f / 2, 2]
Tensor flat(const Tensor& x, const Tensor& like) { return tw::reshape(x, like.shape()); }

Tensor dense(const Operands& o) { return tw::tanh(tw::matmul(o.a, o.set.weight) + o.set.bias); }

Tensor dense_transposed(const Operands& o) {
  if (o.choice % 2 == 0) return tw::sigmoid(tw::matmul(o.a, o.set.weight, {.transpose_b = true}));
  return tw::sigmoid(tw::matmul(o.a, tw::transpose(o.set.weight, {1, 0})) + o.set.bias);
}

Tensor unary(const Operands& o) {
  switch (o.choice % 8) {
    case 0: return tw::relu(o.a);
    case 1: return tw::gelu(o.a);
    case 2: return tw::sin(o.a);
    case 3: return tw::exp(-(o.a * o.a));
    case 4: return tw::sqrt(o.a * o.a + 1);
    case 5: return tw::sigmoid(o.a) * o.a;
    case 6: return tw::softplus(o.a);
    default: return tw::tanh(o.a) * 1 + 0;
  }
}

Tensor binary(const Operands& o) {
  switch (o.choice % 6) {
    case 0: return o.a + o.b;
    case 1: return tw::tanh(o.a) * tw::tanh(o.b);
    case 2: return o.a - o.b * 0.5;
    case 3: return o.a / (o.b * o.b + 1);
    case 4: return tw::maximum(o.a, o.b);
    default: return tw::where(o.a > o.b, o.a * 0.5, o.b);
  }
}

Tensor broadcast(const Operands& o) {
  return o.a * o.set.scale + tw::reduce_mean(o.b, {.axes = {-1}, .keepdims = true}) - o.set.offset;
}

Tensor shuffle(const Operands& o) {
  if (o.choice % 3 == 0) return flat(tw::transpose(pairs(o.a), {0, 2, 1}), o.a);
  if (o.choice % 3 == 1) return tw::reverse(o.a, {1});
  const auto halves = tw::split(o.a, 2, 1);
  return tw::concat({halves[1], halves[0]}, 1);
}

Tensor norm(const Operands& o) {
  const Tensor y = tw::layer_norm(o.a, o.set.scale, o.set.offset);
  return o.choice % 2 == 0 ? y : tw::rms_norm(y + o.b, o.set.scale);
}

Tensor softmax(const Operands& o) { return tw::softmax(o.a) * static_cast<double>(features(o.a)); }

Tensor products(const Operands& o) {
  const Tensor a = tw::tanh(pairs(o.a)), b = tw::tanh(pairs(o.b));
  const Tensor weights = tw::softmax(tw::matmul(a, b, {.transpose_b = true}) * 0.5);  // [n, f / 2, f / 2]
  return flat(tw::matmul(o.choice % 2 == 0 ? weights : tw::dropout(weights, 0.25), b), o.a);
}

// Boolean [n or 1, queries or 1, keys]: as programs hide keys; some leave queries without any.
Tensor seen_keys(const Operands& o, std::int64_t time) {
  const Tensor keys = tw::arange(time), queries = tw::expand_dims(keys, 1);
  const Tensor below = keys <= queries, one = tw::reshape(keys < 1, {1, time});
  const Tensor given = tw::floormod(tw::reshape(o.ids, {-1, 1, 1}), time) <= keys;
  switch (o.choice % 6) {
    case 0: return below;
    case 1: return one;
    case 2: return given;
    case 3: return given & below;
    case 4: return keys - queries < 2;
    default: return one | !given;
  }
}

// Attention in single ops; scores of hidden keys are set to a number.
Tensor masked_attention(const Operands& o) {
  const Tensor q = tw::tanh(pairs(o.a)), v = pairs(o.b);
  const Tensor seen = seen_keys(o, q.shape()[1]);
  Tensor scores = tw::matmul(q, tw::tanh(v), {.transpose_b = true}) * 0.5;
  if (o.choice % 4 == 0) {
    const Tensor shown = tw::cast(seen, scores.dtype());
    scores = scores * shown - 1e9 * (1 - shown);
  } else {
    scores = tw::where(seen, scores, -1e9);
  }
  if (o.choice % 3 == 0) return flat(tw::matmul(tw::softmax(scores), v), o.a);
  const tw::Reduce last{.axes = {-1}, .keepdims = true};
  const Tensor e = tw::exp(scores - tw::reduce_max(scores, last)), weights = e / tw::reduce_sum(e, last);
  return flat(tw::matmul(o.choice % 3 == 1 ? weights : tw::dropout(weights, 0.25), v), o.a);
}

// Heads behind time, as products leave them: of three products, or the parts of one.
Tensor heads(const Operands& o) {
  const std::int64_t n = examples(o.a), time = features(o.a) / 4;
  const auto in_front = [&](const Tensor& x) {
    return tw::transpose(tw::reshape(tw::tanh(x), {n, time, 2, 2}), {0, 2, 1, 3});
  };
  std::vector<Tensor> parts{in_front(o.a), in_front(o.b), in_front(o.a * o.set.scale)};
  if (o.choice % 2 == 0) {
    const Tensor all = tw::reshape(tw::concat({o.a, o.b, o.a - o.b}, 1), {n, time, 3, 2, 2});
    parts = tw::unstack(tw::transpose(tw::tanh(all), {2, 0, 3, 1, 4}), 0);
  }
  const Tensor y = tw::attention(parts[0], parts[1], parts[2], {.causal = o.choice % 3 == 0});
  return flat(tw::transpose(y, {0, 2, 1, 3}), o.a);
}

Tensor recompute(const Operands& o) {
  const auto block = [set = o.set, choice = o.choice](const Tensor& x) {
    const Tensor y = tw::gelu(tw::matmul(x, set.weight) + set.bias);
    return choice % 2 == 0 ? y : tw::dropout(y, 0.25);
  };
  return tw::recompute(block)(o.a);
}

Tensor dropout(const Operands& o) { return tw::dropout(o.a, 0.1 * (1 + o.choice % 5)); }

Tensor scan(const Operands& o) {
  const Tensor slices = tw::transpose(pairs(o.a), {1, 0, 2});  // [f / 2, n, 2]
  const Tensor first = tw::slice(o.b, {0, 0}, {-1, 2});
  const auto h = tw::scan(
      [&](const List& carry, const List& x) {
        const Tensor next = tw::tanh(carry[0] * tw::slice(o.set.scale.value(), {0}, {2}) + x[0]);
        return List{o.choice % 2 == 0 ? next : tw::dropout(next, 0.25)};
      },
      {first}, {slices})[0];
  return flat(tw::transpose(h, {1, 0, 2}), o.a);
}

Tensor while_loop(const Operands& o) {
  return tw::while_loop([](const List& v) { return tw::reduce_mean(v[0] * v[0]) > 0.05; },
                        [&](const List& v) {
                          return List{tw::sin(v[0] * 0.5 + v[1] * 0.1), v[1]};
                        },
                        {o.a, o.b}, {.maximum_iterations = 3})[0];
}

Tensor cond(const Operands& o) {
  return tw::cond(
      tw::reduce_mean(o.b) > 0.1 * (1 + o.choice % 3), [&] { return tw::tanh(o.a * o.set.scale) + o.b; },
      [&] { return tw::sin(o.a) - tw::matmul(o.b, o.set.weight); });
}

Tensor embedding(const Operands& o) {
  if (o.choice % 2 == 0) return o.a + tw::gather(o.set.table, o.ids);
  return o.a * 0.5 + tw::embedding_lookup(o.set.table, tw::floormod(o.ids + 1, table_rows));
}

Tensor center(const Operands& o) { return o.a - tw::reduce_mean(o.a, {.axes = {0}, .keepdims = true}); }

Tensor stopped(const Operands& o) { return o.a + tw::stop_gradient(o.b) * 0.5; }

Tensor cumulative(const Operands& o) { return tw::tanh(tw::cumsum(o.a, {.axis = 1})); }

Tensor of_parameters(const Operands& o) { return o.a + tw::exp(o.set.scale * 0.1) * tw::reduce_sum(o.set.offset); }

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> list = {{"dense", dense, false},
                                         {"dense_transposed", dense_transposed, false},
                                         {"unary", unary, false},
                                         {"binary", binary, false},
                                         {"broadcast", broadcast, false},
                                         {"shuffle", shuffle, false},
                                         {"norm", norm, false},
                                         {"softmax", softmax, false},
                                         {"products", products, true},
                                         {"masked_attention", masked_attention, true},
                                         {"heads", heads, true},
                                         {"recompute", recompute, false},
                                         {"dropout", dropout, false},
                                         {"embedding", embedding, false},
                                         {"stopped", stopped, false},
                                         {"cumulative", cumulative, false},
                                         {"of_parameters", of_parameters, false},
                                         {"scan", scan, true},
                                         {"while_loop", while_loop, true},
                                         {"cond", cond, true},
                                         {"center", center, false}};
  return list;
}

}  // namespace fuzz
