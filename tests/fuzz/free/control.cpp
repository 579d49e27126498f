#include "tests/fuzz/free/machine.h"

namespace fuzz::free {
namespace {

using tw::Tensor;

std::vector<Statement> body(const Operands& o) { return random_body(o.dice, o.machine.program(), o.barred); }

// The body's result made small, and of the shape and dtype of `like`.
Tensor carried(const Tensor& made, const Tensor& like) {
  const Tensor y = reshaped(made, like.shape(), like.dtype());
  return is_float(y) ? tw::tanh(y) : y;
}

Tensor cond(Operands& o) {
  const auto one = body(o), other = body(o);
  const Tensor decides = tw::reduce_sum(real(o, o.c)) > 0.1;
  const bool as_it_is = o.dice.one_in(3);
  return renamed(tw::cond(
      decides,
      [&] {
        return carried(o.machine.run_body(one, {o.a, o.b}), o.a);
      },
      [&] {
        return as_it_is ? o.a : carried(o.machine.run_body(other, {o.a, o.b}), o.a);
      }));
}

// Branches that give what they were given, another way around, and variables.
Tensor cond_of_several(Operands& o) {
  const auto part = body(o);
  const Tensor b = reshaped(o.b, o.a.shape(), o.a.dtype());
  const tw::Variable variable = o.machine.variable(o.dice.below(9));
  const bool as_it_is = o.dice.one_in(2);
  const auto all = tw::cond(
      tw::reduce_sum(real(o, o.c)) > 0.1,
      [&] {
        return List{carried(o.machine.run_body(part, {o.a, b}), b), o.a, variable.value()};
      },
      [&] {
        return List{o.a, b, as_it_is ? variable.value() : variable.value() + variable.value()};
      });
  return renamed(all[static_cast<std::size_t>(o.dice.below(3))]);
}

Tensor while_loop(Operands& o) {
  const auto turn = body(o);
  const Tensor start = tw::zeros({}, tw::i64);
  const bool by_value = o.dice.one_in(2);
  return renamed(tw::while_loop(
      [&](const List& v) {
        return by_value && is_float(v[1]) ? tw::reduce_sum(tw::abs(v[1])) > 0.5 : v[0] < 1 + static_cast<int>(v.size());
      },
      [&](const List& v) {
        return List{v[0] + 1, carried(o.machine.run_body(turn, {v[1], o.b}), o.a)};
      },
      {start, o.a}, {.maximum_iterations = 3})[1]);
}

// Values that change places in each turn, beside one that stays.
Tensor while_swapping(Operands& o) {
  const auto turn = body(o);
  const int turns = o.dice.below(4), wanted = 1 + o.dice.below(3);
  const bool plain = o.dice.one_in(2) || o.a.dtype() == tw::boolean;
  const List end = tw::while_loop(
      [&](const List& v) { return v[0] < turns; },
      [&](const List& v) {
        const Tensor first = plain ? v[1] : v[1] + v[2];
        return List{v[0] + 1, carried(o.machine.run_body(turn, {v[2], v[3]}), o.a), first, v[3]};
      },
      {tw::zeros({}, tw::i32), o.a, reshaped(o.b, o.a.shape(), o.a.dtype()), o.c}, {.maximum_iterations = 3});
  return renamed(end[static_cast<std::size_t>(wanted)]);
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

// Two carries that change places, over slices of floats and numbers of rows; the table is read in every turn.
Tensor scan_of_several(Operands& o) {
  if (o.a.shape().rank() == 0 || o.a.shape()[0] > 12) return o.a;
  const auto turn = body(o);
  const Tensor first = reshaped(o.b, o.a.shape().without(0), o.a.dtype());
  const bool reads = o.dice.one_in(2);
  const List all = tw::scan(
      [&](const List& carry, const List& x) {
        Tensor next = o.machine.run_body(turn, {carry[1], x[0]});
        if (reads)
          next = real(o, next) + tw::cast(tw::reduce_mean(tw::gather(o.machine.table(), x[1])), real(o, next).dtype());
        return List{carry[1], carried(next, carry[0])};
      },
      {first, tw::zeros_like(first)}, {o.a, tw::floormod(tw::arange(o.a.shape()[0]), table_rows)});
  return all[static_cast<std::size_t>(o.dice.below(2))];
}

Tensor stopped(Operands& o) {
  return o.dice.one_in(2) ? tw::stop_gradient(o.a) : real(o, o.a) + tw::stop_gradient(real(o, o.a));
}

}  // namespace

Kinds control_kinds() {
  return {{"cond", cond, loops | shape_kept, 5},
          {"cond_of_several", cond_of_several, loops, 3},
          {"while_loop", while_loop, loops | shape_kept, 4},
          {"while_swapping", while_swapping, loops, 3},
          {"scan", scan, loops | axes, 4},
          {"scan_of_several", scan_of_several, loops | axes, 3},
          {"stopped", stopped, shape_kept, 4}};
}

}  // namespace fuzz::free
