#include "tests/fuzz/free/machine.h"

// Tapes that begin and end within one statement: in branches, loops and functions too.
namespace fuzz::free {
namespace {

using tw::Tensor;

constexpr tw::Unconnected zero = tw::Unconnected::zero;

std::vector<Statement> body(const Operands& o) { return random_body(o.dice, o.machine.program(), o.barred); }

// The body as a function of x whose results are small enough to be differentiated twice.
tw::TensorFunction function_of(Operands& o) {
  return [&o, part = body(o)](const Tensor& x) {
    const Tensor y = o.machine.run_body(part, {x, o.b});
    return tw::tanh(is_float(y) ? y : tw::cast(y, x.dtype()) * x);
  };
}

Tensor sum_of(const std::vector<tw::Gradient>& gradients) {
  Tensor sum = tw::zeros({}, tw::f64);
  for (const auto& g : gradients) sum = sum + tw::cast(tw::reduce_sum(g.dense()), tw::f64);
  return sum;
}

Tensor gradient_of(Operands& o) {
  const auto f = function_of(o);
  const Tensor x = real(o, o.a);
  tw::GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  const tw::Variable variable = o.machine.variable(o.dice.below(6)), table = o.machine.variable(5);
  switch (o.dice.below(8)) {
    case 0: return tape.gradient(y, variable, {zero});
    case 1: return tape.gradient({y, y * 2}, x, {zero});
    case 2: return sum_of(tape.gradient(y, std::vector<Tensor>{x, x, o.b}, {zero}));
    case 3: return sum_of(tape.gradient(y, std::vector<tw::Variable>{variable, table, variable}, {zero}));
    case 4: return tape.gradient({y, x}, x, {zero, {tw::tanh(y), x}});
    case 5: return tape.gradient(tw::reduce_sum(y) * tw::gather(table, tw::tensor({1, 4, 1})), table, {zero});
    default: return tape.gradient(y, x, {zero});
  }
}

// One tape within another, or the outer one asked for what the inner one gave.
Tensor second_gradient(Operands& o) {
  const auto f = function_of(o);
  const Tensor x = real(o, o.a);
  const tw::Variable variable = o.machine.variable(o.dice.below(6));
  tw::GradientTape outer;
  outer.watch(x);
  Tensor first, y;
  {
    tw::GradientTape inner({.persistent = o.dice.one_in(3)});
    inner.watch(x);
    y = f(x);
    first = o.dice.one_in(3) ? inner.gradient(y, variable, {zero}) : inner.gradient(y, x, {zero});
  }
  switch (o.dice.below(4)) {
    case 0: return outer.gradient(tw::square(first), x, {zero});
    case 1: return outer.gradient({first, y}, x, {zero});
    case 2: return outer.gradient(first, variable, {zero});
    default:
      return outer.gradient(tw::reduce_sum(first) * tw::reduce_sum(tw::cast(variable, first.dtype())), variable,
                            {zero});
  }
}

// The second tape begins with what the first one gave, which is a constant to it.
Tensor one_after_another(Operands& o) {
  const auto f = function_of(o);
  const Tensor x = real(o, o.a);
  Tensor step = x;
  for (int i = 0; i < 2; ++i) {
    tw::GradientTape tape({.persistent = o.dice.one_in(4)});
    tape.watch(step);
    const Tensor y = f(step);
    if (o.dice.one_in(4)) {
      const auto pause = tape.stop_recording();
      step = step + f(step);
      continue;
    }
    step = step - tape.gradient(y, step, {zero}) * 0.1;
  }
  return step;
}

Tensor asked_again(Operands& o) {
  const auto f = function_of(o);
  const Tensor x = real(o, o.a);
  tw::GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = f(x);
  const Tensor by_row = tape.gradient(y, o.machine.variable(2), {zero}), by_x = tape.gradient(y, x, {zero});
  const Tensor again = tape.gradient(by_x, x, {zero});
  return o.dice.one_in(2) ? again + by_x : tw::cast(tw::reduce_sum(by_row), x.dtype()) + by_x;
}

Tensor transform(Operands& o) {
  const auto f = function_of(o);
  const Tensor x = real(o, o.a);
  switch (o.dice.below(5)) {
    case 0: return tw::grad(f)(x);
    case 1: {
      const auto [y, dy] = tw::value_and_grad(f)(x);
      return y + tw::reduce_sum(dy);
    }
    case 2: return tw::jvp(f, x, reshaped(real(o, o.c), x.shape(), x.dtype())).second;
    case 3: return x.shape().size() > 12 ? x : tw::hessian(f, x);
    default: return tw::hvp(f, x, reshaped(real(o, o.c), x.shape(), x.dtype()));
  }
}

}  // namespace

Kinds tape_kinds() {
  return {{"gradient_of", gradient_of, tapes, 8},
          {"second_gradient", second_gradient, tapes, 4},
          {"one_after_another", one_after_another, tapes | shape_kept, 3},
          {"asked_again", asked_again, tapes | shape_kept, 3},
          {"transform", transform, tapes, 4}};
}

}  // namespace fuzz::free
