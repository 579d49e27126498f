#include "tests/fuzz/free/machine.h"

namespace fuzz::free {
namespace {

using tw::Tensor;

std::vector<Statement> body(const Operands& o) { return random_body(o.dice, o.machine.program()); }

// The body's result made small, and of the shape and dtype of `like`.
Tensor carried(const Tensor& made, const Tensor& like) {
  const Tensor y = reshaped(made, like.shape(), like.dtype());
  return is_float(y) ? tw::tanh(y) : y;
}

Tensor cond(Operands& o) {
  const auto one = body(o), other = body(o);
  const Tensor decides = tw::reduce_sum(real(o, o.c)) > 0.1;
  const bool as_it_is = o.dice.one_in(3);
  return tw::cond(
      decides,
      [&] {
        return carried(o.machine.run_body(one, {o.a, o.b}), o.a);
      },
      [&] {
        return as_it_is ? o.a : carried(o.machine.run_body(other, {o.a, o.b}), o.a);
      });
}

Tensor while_loop(Operands& o) {
  const auto turn = body(o);
  const Tensor start = tw::zeros({}, tw::i64);
  const bool by_value = o.dice.one_in(2);
  return tw::while_loop(
      [&](const List& v) {
        return by_value && is_float(v[1]) ? tw::reduce_sum(tw::abs(v[1])) > 0.5 : v[0] < 1 + static_cast<int>(v.size());
      },
      [&](const List& v) {
        return List{v[0] + 1, carried(o.machine.run_body(turn, {v[1], o.b}), o.a)};
      },
      {start, o.a}, {.maximum_iterations = 3})[1];
}

Tensor scan(Operands& o) {
  if (o.a.shape().rank() == 0 || o.a.shape()[0] > 12) return o.a;
  const auto turn = body(o);
  const Tensor first = reshaped(o.b, o.a.shape().without(0), o.a.dtype());
  return tw::scan(
      [&](const List& carry, const List& x) {
        return List{carried(o.machine.run_body(turn, {carry[0], x[0]}), carry[0])};
      },
      {first}, {o.a})[0];
}

Tensor recompute(Operands& o) {
  const auto part = body(o);
  return tw::recompute([&machine = o.machine, part](const Tensor& a, const Tensor& b) {
    return machine.run_body(part, {a, b});
  })(o.a, o.b);
}

Tensor custom_gradient(Operands& o) {
  const bool plain = o.dice.one_in(2);
  return tw::custom_gradient(
      [&](const List& in) {
        const Tensor y = tw::sin(in[0]) + 0;
        return std::pair{y, [x = in[0], plain](const Tensor& dy) { return List{plain ? dy : dy * tw::tanh(x)}; }};
      },
      {real(o, o.a)});
}

Tensor stopped(Operands& o) {
  return o.dice.one_in(2) ? tw::stop_gradient(o.a) : real(o, o.a) + tw::stop_gradient(real(o, o.a));
}

// A function inside of the program.
Tensor function(Operands& o) {
  const auto part = body(o);
  for (const auto& s : part)
    if (kinds()[static_cast<std::size_t>(s.kind)].traits & draws) return o.a;
  const auto f = tw::function([&](const Tensor& a, const Tensor& b) { return o.machine.run_body(part, {a, b}); });
  return f(o.a, o.b);
}

}  // namespace

Kinds control_kinds() {
  return {{"cond", cond, loops | shape_kept, 5},
          {"while_loop", while_loop, loops | shape_kept, 4},
          {"scan", scan, loops | axes, 4},
          {"recompute", recompute, 0, 5},
          {"custom_gradient", custom_gradient, shape_kept | effects, 3},
          {"stopped", stopped, shape_kept, 4},
          {"function", function, 0, 3}};
}

}  // namespace fuzz::free
