#include "thalweg/optim/rule.h"

#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/ops/widen.h"

namespace thalweg::optim {
namespace {

using namespace rows;

// The frame around every rule, for expressions and tensors alike. A null pointer: not in use.
template <class V>
struct Frame {
  const V *decay = {}, *scale = {}, *due = {}, *average = {}, *share = {};
  std::optional<double> bound = {};

  V weight(const V& w) const { return decay ? w - w * *decay : w; }

  V gradient(const V& g) const {
    if (bound) return minimum(maximum(g, -*bound), *bound);
    return scale ? g * *scale : g;
  }

  // `changed` (w and the slots) where the update is due, and the average after it.
  template <class List>
  List settled(const V& w, const List& slots, List changed) const {
    if (average) changed.push_back(*average + (changed[0] - *average) * *share);
    if (!due) return changed;
    changed[0] = where(*due, changed[0], w);
    for (std::size_t i = 0; i < slots.size(); ++i) changed[i + 1] = where(*due, changed[i + 1], slots[i]);
    if (average) changed.back() = where(*due, changed.back(), *average);
    return changed;
  }
};

const Tensor* given(const Tensor& tensor) { return tensor.defined() ? &tensor : nullptr; }

// Inputs of the program: w, g, the slots, the scalars, then what is in use of the frame.
Tensors inputs_of(const Update& update) {
  Tensors inputs{update.w, update.g};
  inputs.append(update.slots.begin(), update.slots.end());
  inputs.append(update.scalars.begin(), update.scalars.end());
  for (const Tensor* tensor : {&update.decay, &update.scale, &update.due, &update.average, &update.share})
    if (tensor->defined()) inputs.push_back(*tensor);
  return inputs;
}

std::size_t key_of(const Update& update) {
  std::size_t key = 0;
  for (bool used : {update.decay.defined(), update.scale.defined(), update.due.defined(), update.average.defined(),
                    update.bound.has_value()})
    key = 2 * key + used;
  return key;
}

}  // namespace

const WrittenProgram& ElementwiseRule::program(const Update& update) {
  auto& known = programs_[key_of(update)];
  if (known) return *known;
  const std::size_t slots = update.slots.size(), scalars = update.scalars.size();
  known = &write_program(static_cast<int>(inputs_of(update).size()), [&](const Expressions& in) {
    const Expression* next = in.begin() + 2 + slots + scalars;
    const auto take = [&](const Tensor& tensor) { return tensor.defined() ? next++ : nullptr; };
    const Frame<Expression> frame{take(update.decay),   take(update.scale), take(update.due),
                                  take(update.average), take(update.share), update.bound};  // in this order
    const Expressions own(in.begin() + 2, in.begin() + 2 + slots);
    const Expressions numbers(in.begin() + 2 + slots, in.begin() + 2 + slots + scalars);
    return frame.settled(in[0], own, formula(frame.weight(in[0]), frame.gradient(in[1]), own, numbers));
  });
  return *known;
}

Tensors ElementwiseRule::update(const Variable&, const Update& update) {
  return run_written(program(update), inputs_of(update));
}

Tensors CompositeRule::update(const Variable&, const Update& update) {
  const Frame<Tensor> frame{given(update.decay),   given(update.scale), given(update.due),
                            given(update.average), given(update.share), update.bound};
  Tensors wide;
  for (const auto& slot : update.slots) wide.push_back(widen(slot));
  Tensors changed = change(frame.weight(widen(update.w)), frame.gradient(widen(update.g)), wide, update.scalars);
  for (auto& value : changed) value = cast(value, update.w.dtype());
  changed = frame.settled(update.w, update.slots, std::move(changed));
  if (update.average.defined()) changed.back() = cast(changed.back(), update.w.dtype());
  return changed;
}

}  // namespace thalweg::optim
