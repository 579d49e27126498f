#include "thalweg/optim/rule.h"

#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/ops/widen.h"

namespace thalweg::optim {
namespace {

using namespace rows;

// The frame around every rule, for expressions and tensors alike. A null pointer: not in use.
template <class V, class List>
struct Frame {
  const List& tables;
  const V *decay = {}, *scale = {}, *due = {}, *share = {};
  std::optional<double> bound = {};

  V weight() const { return decay ? tables[0] - tables[0] * *decay : tables[0]; }
  List slots() const { return List(tables.begin() + 1, tables.end() - (share ? 1 : 0)); }
  V gradient(const V& g) const {
    if (bound) return minimum(maximum(g, -*bound), *bound);
    return scale ? g * *scale : g;
  }
  // The tables after an update that changes w and the slots.
  List settled(List changed) const {
    if (share) changed.push_back(tables.back() + (changed[0] - tables.back()) * *share);
    if (due)
      for (std::size_t i = 0; i < changed.size(); ++i) changed[i] = where(*due, changed[i], tables[i]);
    return changed;
  }
};

// Inputs of the program: the tables if they are given, g, the scalars, then what is in use of the frame.
Tensors inputs_of(const Update& update) {
  Tensors inputs = update.tables;
  inputs.push_back(update.g);
  inputs.append(update.scalars.begin(), update.scalars.end());
  for (const Tensor* tensor : {&update.decay, &update.scale, &update.due, &update.share})
    if (tensor->defined()) inputs.push_back(*tensor);
  return inputs;
}

std::size_t key_of(const Update& update) {
  std::size_t key = 0;
  for (bool used : {update.decay.defined(), update.scale.defined(), update.due.defined(), update.share.defined(),
                    update.bound.has_value()})
    key = 2 * key + used;
  return key;
}

}  // namespace

const WrittenProgram& ElementwiseRule::program(std::size_t tables, const Update& update) {
  auto& known = programs_[key_of(update)];
  if (known) return *known;
  const std::size_t scalars = update.scalars.size();
  const std::size_t inputs = inputs_of(update).size() + tables - update.tables.size();
  known = &write_program(static_cast<int>(inputs), [&](const Expressions& in) {
    const Expression* next = in.begin() + tables + 1 + scalars;
    const auto take = [&](const Tensor& tensor) { return tensor.defined() ? next++ : nullptr; };
    const Expressions own(in.begin(), in.begin() + tables);
    const Expressions numbers(in.begin() + tables + 1, in.begin() + tables + 1 + scalars);
    const Frame<Expression, Expressions> frame{own,  // the rest in the order of the inputs
                                               take(update.decay),
                                               take(update.scale),
                                               take(update.due),
                                               take(update.share),
                                               update.bound};
    return frame.settled(formula(frame.weight(), frame.gradient(in[tables]), frame.slots(), numbers));
  });
  return *known;
}

Tensors ElementwiseRule::update(const Variable&, const Update& update) {
  return run_written(program(update.tables.size(), update), inputs_of(update));
}

bool ElementwiseRule::update_in_place(const std::vector<Variable>& tables, const Update& update) {
  run_in_place(program(tables.size(), update), tables, inputs_of(update));
  return true;
}

Tensors CompositeRule::update(const Variable&, const Update& update) {
  const auto given = [](const Tensor& tensor) { return tensor.defined() ? &tensor : nullptr; };
  Tensors tables;
  for (const auto& table : update.tables) tables.push_back(widen(table));
  const Frame<Tensor, Tensors> frame{
      tables, given(update.decay), given(update.scale), given(update.due), given(update.share), update.bound};
  Tensors changed =
      frame.settled(change(frame.weight(), frame.gradient(widen(update.g)), frame.slots(), update.scalars));
  for (auto& value : changed) value = cast(value, update.tables[0].dtype());
  return changed;
}

}  // namespace thalweg::optim
