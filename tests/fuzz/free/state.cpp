#include "tests/fuzz/free/machine.h"

namespace fuzz::free {
namespace {

using tw::Tensor;

Tensor read(Operands& o) { return o.machine.variable(o.dice.below(9)).value(); }

Tensor assign(Operands& o) {
  tw::Variable& variable = o.machine.variable(o.dice.below(9));
  const Tensor old = variable.value();
  Tensor value = reshaped(o.a, old.shape(), old.dtype());
  if (is_float(value) && o.dice.one_in(2)) value = tw::tanh(value);
  switch (o.dice.below(6)) {
    case 0: variable.assign_add(value); break;
    case 1: variable.assign_sub(value); break;
    case 2: variable.assign(old * 2 - value); break;
    default: variable.assign(value);
  }
  switch (o.dice.below(4)) {
    case 0: return old;
    case 1: return variable.value();
    case 2: return value;
    default: return o.a;
  }
}

// A variable and what is made of its own elements: rows that are read for all others, and elements that move.
Tensor assign_own(Operands& o) {
  static const int numbers[] = {2, 3, 4, 5, 8};
  tw::Variable variable = o.machine.variable(numbers[o.dice.below(5)]);
  const Tensor old = variable.value();
  const int rank = old.shape().rank(), axis = o.dice.below(rank);
  tw::Ints begin(rank, 0), size(rank, -1);
  begin[axis] = o.dice.below(old.shape()[axis]), size[axis] = 1;
  const Tensor part = tw::slice(old, begin, size), row = reshaped(o.a, part.shape(), old.dtype());
  switch (o.dice.below(9)) {
    case 0: variable.assign(old - part); break;
    case 1: variable.assign(tw::reverse(old, {axis})); break;
    case 2: variable.assign(tw::roll(old, 1, axis)); break;
    case 3: variable.assign_add(part * 0.5); break;
    case 4: variable.assign_sub(tw::tanh(row)); break;
    case 5: {
      const auto count = 1 + o.dice.below(old.shape()[0]);
      const Tensor indices = tw::expand_dims(places(o, o.a, count, old.shape()[0]), 1);
      tw::Ints sizes(rank, -1);
      sizes[0] = count;
      variable.assign(tw::tensor_scatter_nd_add(old, indices, tw::slice(old, tw::Ints(rank, 0), sizes)));
      break;
    }
    case 6: variable.assign(old); break;
    case 7:
      variable.assign(tw::tanh(reshaped(o.a, old.shape(), old.dtype()))), variable.assign_add(old),
          variable.assign_sub(variable.value() * 0.5);
      break;
    default: {
      const auto parts = tw::unstack(old, 0);
      variable.assign(tw::stack({parts.rbegin(), parts.rend()}, 0));
    }
  }
  return o.dice.one_in(2) ? part : variable.value();
}

// Two variables change places.
Tensor swap(Operands& o) {
  tw::Variable one = o.machine.variable(o.dice.below(9)), other = o.machine.variable(o.dice.below(9));
  const Tensor first = one, second = other;
  one.assign(reshaped(second, one.shape(), one.dtype()));
  other.assign(reshaped(first, other.shape(), other.dtype()));
  return o.dice.one_in(2) ? first : one.value();
}

Tensor open_tape(Operands& o) {
  if (!is_float(o.a) || o.machine.tapes().size() > 1) return o.a;
  const bool persistent = o.dice.one_in(4);
  auto tape = std::make_unique<tw::GradientTape>(tw::TapeOptions{.persistent = persistent});
  tape->watch(o.a);
  o.machine.tapes().push_back({std::move(tape), o.a, persistent});
  return o.a;
}

// The innermost tape goes, unless it is asked again.
class Asked {
 public:
  explicit Asked(Operands& o) : tapes_(o.machine.tapes()), stays_(tapes_.back().persistent && o.dice.one_in(2)) {}
  ~Asked() {
    if (!stays_) tapes_.pop_back();
  }
  Machine::Recording& recording() { return tapes_.back(); }

 private:
  std::vector<Machine::Recording>& tapes_;
  const bool stays_;
};

Tensor gradient(Operands& o) {
  if (o.machine.tapes().empty() || !is_float(o.a)) return o.a;
  Asked asked(o);
  auto& [tape, watched, persistent] = asked.recording();
  tw::GradientOptions options{.unconnected = tw::Unconnected::zero};
  const Tensor target = o.dice.one_in(2) ? tw::reduce_sum(o.a * 0.3) : o.a;
  if (o.dice.one_in(4)) options.output_gradients = {reshaped(o.b, target.shape(), target.dtype())};
  switch (o.dice.below(5)) {
    case 0: return tape->gradient(target, o.machine.variable(o.dice.below(6)), options);
    case 1: return tape->gradient({target, tw::reduce_sum(tw::sin(target))}, watched, {options.unconnected});
    case 2: {
      const auto all = tape->gradient(target, {watched, o.b}, options);
      return all[0].dense();
    }
    default: return tape->gradient(target, watched, options);
  }
}

Tensor jacobian(Operands& o) {
  if (o.machine.tapes().empty() || !is_float(o.a)) return o.a;
  Asked asked(o);
  auto& [tape, watched, persistent] = asked.recording();
  const Tensor target = o.a.shape().size() > 40 ? tw::reduce_sum(o.a, {.axes = {0}}) : o.a;
  if (target.shape().size() * watched.shape().size() > 4000) return o.a;
  const Tensor all = o.dice.one_in(2) ? tape->jacobian(target, watched) : tape->jacobian(target, o.machine.variable(2));
  return all.defined() ? all : o.a;
}

std::vector<tw::Variable> trained(Machine& machine) {
  std::vector<tw::Variable> list;
  for (const auto& variable : machine.variables())
    if (variable.trainable()) list.push_back(variable);
  return list;
}

// A step of training from inside the program.
Tensor update(Operands& o) {
  if (o.machine.tapes().empty() || !is_float(o.a)) return o.a;
  Asked asked(o);
  auto& [tape, watched, persistent] = asked.recording();
  const Tensor loss = tw::reduce_mean(tw::tanh(o.a));
  if (o.dice.one_in(3)) {
    tw::Variable& variable = o.machine.variable(o.dice.below(6));
    const Tensor g = tape->gradient(loss, variable, {.unconnected = tw::Unconnected::zero});
    const Tensor old = variable.value();
    variable.assign_sub(g * 0.1);
    return o.dice.one_in(2) ? loss : old;
  }
  const auto variables = trained(o.machine);
  auto gradients = tape->gradient(loss, variables, {.unconnected = tw::Unconnected::zero});
  if (o.dice.one_in(3)) {  // the variables in two parts, each with an optimizer of its own
    const auto half = static_cast<std::ptrdiff_t>(variables.size() / 2);
    o.machine.optimizer().apply({gradients.begin(), gradients.begin() + half},
                                {variables.begin(), variables.begin() + half});
    o.machine.other_optimizer().apply({gradients.begin() + half, gradients.end()},
                                      {variables.begin() + half, variables.end()});
    return loss;
  }
  if (o.dice.one_in(4)) gradients = tw::clip_by_global_norm(gradients, 0.5).first;
  o.machine.optimizer().apply(gradients, variables);
  return o.dice.one_in(3) ? tw::global_norm(gradients) : loss;
}

}  // namespace

Kinds state_kinds() {
  return {{"read", read, 0, 14},
          {"assign", assign, effects | shape_kept, 14},
          {"assign_own", assign_own, effects, 8},
          {"swap", swap, effects, 4},
          {"open_tape", open_tape, tapes | effects | shape_kept, 14},
          {"gradient", gradient, tapes | effects | shape_kept, 14},
          {"jacobian", jacobian, tapes | effects, 3},
          {"update", update, tapes | effects, 7}};
}

}  // namespace fuzz::free
