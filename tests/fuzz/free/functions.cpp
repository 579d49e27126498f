#include "tests/fuzz/free/machine.h"

// Functions inside of the program, and rules of its own.
namespace fuzz::free {
namespace {

using tw::Tensor;

Tensor custom_gradient(Operands& o) {
  const bool plain = o.dice.one_in(2);
  return tw::custom_gradient(
      [&](const List& in) {
        const Tensor y = tw::sin(tw::tanh(in[0]) * 3) + 0;
        return std::pair{y, [x = in[0], plain](const Tensor& dy) { return List{plain ? dy : dy * tw::tanh(x)}; }};
      },
      {real(o, o.a)});
}

Tensor custom_gradient_of_variable(Operands& o) {
  const tw::Variable row = o.machine.variable(o.dice.below(6));
  return tw::custom_gradient(
      [&](const List& in) {
        const Tensor y = in[0] * tw::cast(tw::reduce_mean(row.value()), in[0].dtype());
        return std::pair{y, [y, row](const Tensor& dy) {
                           const Tensor all = tw::cast(tw::reduce_mean(dy * y), row.dtype());
                           return std::pair{List{dy * 2}, List{tw::broadcast_to(all, row.shape())}};
                         }};
      },
      {real(o, o.a)}, {row});
}

Tensor recompute(Operands& o) {
  const auto part = random_body(o.dice, o.machine.program(), o.barred);
  return tw::recompute([&machine = o.machine, part](const Tensor& a, const Tensor& b) {
    return machine.run_body(part, {a, b});
  })(o.a, o.b);
}

// Of this statement alone.
Tensor own_function(Operands& o) {
  const auto part = random_body(o.dice, o.machine.program(), o.barred);
  const auto f = tw::function([&](const Tensor& a, const Tensor& b) { return o.machine.run_body(part, {a, b}); });
  return renamed(f(o.a, renamed(o.b)));
}

// One that other statements call too, perhaps twice.
Tensor shared_function(Operands& o) {
  const auto& f = o.machine.function(o.dice.below(3));
  const Tensor b = renamed(o.b), once = renamed(f(o.a, b)[0]);
  if (o.dice.one_in(2)) return once;
  return renamed(o.dice.one_in(2) ? f(once, b)[1] : f(b, once)[0]);
}

}  // namespace

Kinds function_kinds() {
  return {{"recompute", recompute, 0, 5},
          {"custom_gradient", custom_gradient, shape_kept | effects, 3},
          {"custom_gradient_of_variable", custom_gradient_of_variable, shape_kept | effects, 3},
          {"function", own_function, 0, 3},
          {"shared_function", shared_function, shared, 5}};
}

}  // namespace fuzz::free
