#include "tests/fuzz/free/machine.h"

namespace fuzz::free {
namespace {

using tw::Tensor;

Tensor dense(Operands& o) {
  const Tensor x = matrix(real(o, o.a)), weight = tw::cast(o.machine.variable(4), x.dtype());
  const Tensor row = tw::cast(o.machine.variable(2), x.dtype());
  switch (o.dice.below(5)) {
    case 0: return tw::matmul(x, weight);
    case 1: return tw::tanh(tw::matmul(x, weight) + row);
    case 2: return tw::relu(tw::matmul(x, weight, {.transpose_b = true}) + row);
    case 3: return tw::gelu(tw::matmul(x, weight) + row) + x;
    default: return tw::tanh(tw::matmul(x, weight)) * row;
  }
}

Tensor products(Operands& o) {
  const Tensor x = tw::tanh(matrix(real(o, o.a)));
  const Tensor y = tw::tanh(o.dice.one_in(2) ? x : tw::cast(matrix(real(o, o.b)), x.dtype()));
  switch (o.dice.below(4)) {
    case 0: return tw::matmul(x, y, {.transpose_b = true});
    case 1: return tw::matmul(x, y, {.transpose_a = true});
    case 2: return tw::matmul(x, y);
    default: return tw::einsum("ij,ij->i", {x, reshaped(y, x.shape(), x.dtype())});
  }
}

Tensor softmax(Operands& o) {
  const Tensor x = real(o, o.a);
  return o.dice.one_in(2) ? tw::softmax(x, o.dice.one_in(2) ? -1 : 0) : tw::log_softmax(x) * 0.1;
}

Tensor softmax_by_hand(Operands& o) {
  const Tensor x = real(o, o.a);
  const tw::Reduce last{.axes = {-1}, .keepdims = true};
  const Tensor e = tw::exp(o.dice.one_in(2) ? x - tw::reduce_max(x, last) : tw::tanh(x));
  if (o.dice.one_in(3)) return tw::exp(tw::log_softmax(x));
  return e / tw::reduce_sum(e, last);
}

Tensor norm(Operands& o) {
  const Tensor x = real(o, o.a);
  const Tensor scale = tw::cast(o.machine.variable(2), x.dtype());
  const Tensor offset = reshaped(real(o, o.b), scale.shape(), x.dtype());
  switch (o.dice.below(4)) {
    case 0: return tw::layer_norm(x, scale, offset);
    case 1: return tw::rms_norm(x, scale);
    case 2: return tw::batch_norm(x, scale, offset).y;
    default: return tw::relu(tw::batch_norm(x, scale, scale).y);
  }
}

// A batch norm whose mean moves a variable along.
Tensor moving_norm(Operands& o) {
  const Tensor x = tw::cast(o.a, o.machine.program().dtype);
  tw::Variable& mean = o.machine.variable(2);
  const auto norm = tw::batch_norm(x, tw::ones_like(mean.value()), mean);
  mean.assign(mean.value() * 0.9 + norm.mean * 0.1);
  return o.dice.one_in(2) ? norm.y : (x - mean.value()) * tw::rsqrt(norm.variance + 0.1);
}

// [n, h, w, c] of what there is; a kernel of rows of the square variable.
Tensor image(Operands& o) {
  Tensor x = real(o, o.a);
  const auto f = o.machine.program().features;
  const auto pixels = x.shape().size() / (4 * f);
  if (pixels * 4 * f != x.shape().size() || pixels == 0) return o.a;
  const std::int64_t height = pixels % 2 == 0 ? 4 : 2, width = 4 * pixels / height;
  x = tw::reshape(x, {1, height, width, f});
  const Tensor kernel = tw::cast(o.machine.variable(4), x.dtype());
  switch (o.dice.below(5)) {
    case 0: return tw::conv2d(x, tw::reshape(kernel, {1, 1, f, f}));
    case 1: {
      const Tensor tap = tw::reshape(kernel, {1, f, f}), taps = tw::stack({tap, tap * 0.5, -tap}, 0);
      return tw::relu(tw::conv2d(x, tw::reshape(taps, {1, 3, f, f}), {.padding = tw::same}));
    }
    case 2: return tw::max_pool(o.dice.one_in(2) ? tw::relu(x) : x);
    case 3: return tw::avg_pool(x, {.size = {2}, .strides = {1}, .padding = tw::same});
    default: {
      const Tensor row = tw::cast(o.machine.variable(2), x.dtype());
      if (o.machine.program().exact && o.machine.program().with_tapes) return tw::max_pool(x);
      return tw::max_pool(
          tw::batch_norm(x, row, row * 0.5).y);  // their gradients become one op, which rounds otherwise
    }
  }
}

Tensor attention(Operands& o) {
  const Tensor x = tw::tanh(matrix(real(o, o.a)));
  const auto rows = x.shape()[0], size = x.shape()[1];
  const Tensor q = tw::reshape(x, {1, 1, rows, size});
  const Tensor k = tw::reshape(reshaped(real(o, o.b), x.shape(), x.dtype()), q.shape());
  return tw::reshape(tw::attention(q, k, tw::sin(k), {.causal = o.dice.one_in(2)}), {rows, size});
}

Tensor loss(Operands& o) {
  const Tensor x = matrix(real(o, o.a)), y = tw::tanh(reshaped(real(o, o.b), x.shape(), x.dtype()));
  switch (o.dice.below(6)) {
    case 0: return tw::losses::mean_squared_error(y, x);
    case 1: return tw::losses::huber(y, x);
    case 2: return tw::softmax_cross_entropy(tw::softmax(y), x);
    case 3: return tw::sparse_softmax_cross_entropy(places(o, o.c, x.shape()[0], x.shape()[1]), x);
    case 4: return tw::losses::binary_crossentropy(tw::square(y), x, {.from_logits = true, .label_smoothing = 0.1});
    default:
      return tw::losses::mean_absolute_error(y, x, {.sample_weight = tw::reduce_mean(tw::square(y), {.axes = {-1}})});
  }
}

Tensor dropout(Operands& o) { return tw::dropout(real(o, o.a), 0.1 * (1 + o.dice.below(5))); }

Tensor random(Operands& o) {
  const tw::Shape& shape = o.a.shape();
  const Tensor drawn = o.dice.one_in(2)   ? tw::random::normal(shape)
                       : o.dice.one_in(2) ? tw::random::uniform(shape, {.low = -1, .high = 1})
                                          : tw::cast(tw::random::bernoulli(shape), tw::f32);
  return is_float(o.a) && o.dice.one_in(2) ? o.a + tw::cast(drawn, o.a.dtype()) : drawn;
}

}  // namespace

Kinds layer_kinds() {
  return {{"dense", dense, product, 25},
          {"products", products, product, 8},
          {"softmax", softmax, shape_kept, 5},
          {"softmax_by_hand", softmax_by_hand, rounds | shape_kept, 6},
          {"norm", norm, shape_kept, 8},
          {"moving_norm", moving_norm, effects, 3},
          {"image", image, product, 8},
          {"attention", attention, product | rounds, 6},
          {"loss", loss, 0, 5},
          {"dropout", dropout, draws | shape_kept, 4},
          {"random", random, draws, 3}};
}

}  // namespace fuzz::free
