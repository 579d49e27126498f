#include "thalweg/ops/batch_rules.h"

#include <algorithm>

#include "thalweg/ops/broadcast.h"

namespace thalweg {
namespace {

// -1: no axis of that name.
int axis_of(const Ints& names, std::int64_t name) {
  const auto* found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

// What the examples lie along.
struct Batch {
  std::int64_t name = mixed, rows = 0;
};

// The one named axis along which all rows lie; no name: there is none.
Batch find_batch(const BatchStates& states, const AxisNames& inputs) {
  Batch batch;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto& [kind, axis, rows] = states[i];
    if (kind != BatchState::Kind::rows) continue;
    const std::int64_t name = axis < inputs[i].size() ? inputs[i][axis] : mixed;
    const bool first = batch.rows == 0;
    if (name == mixed || (!first && (name != batch.name || rows != batch.rows))) return {};
    batch = {name, rows};
  }
  return batch;
}

}  // namespace

BatchStates named_axes_rule(Inputs in, BatchStates& states, std::int64_t examples, const AxisNames& inputs,
                            const AxisNames& outputs) {
  BatchStates blocked(outputs.size(), {.kind = BatchState::Kind::blocked});
  const Batch batch = find_batch(states, inputs);
  if (batch.name == mixed) return blocked;
  BatchStates cut = states;
  for (int i = 0; i < in.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int axis = axis_of(inputs[at], batch.name);
    if (axis < 0) continue;
    if (in[i].shape[axis] != batch.rows * examples) return blocked;
    cut[at] = BatchState::of_rows(axis, batch.rows);
  }
  states = cut;
  BatchStates result;
  for (const Ints& names : outputs) {
    const int axis = axis_of(names, batch.name);
    result.push_back(axis < 0 ? BatchState{.kind = BatchState::Kind::sum} : BatchState::of_rows(axis, batch.rows));
  }
  return result;
}

BatchStates leading_axes_rule(Inputs in, BatchStates& states, std::int64_t examples, int count, int outputs) {
  const Ints names = first_axes(count);
  return named_axes_rule(in, states, examples, AxisNames(static_cast<std::size_t>(in.size()), names),
                         AxisNames(static_cast<std::size_t>(outputs), names));
}

BatchStates same_axes_rule(Inputs in, BatchStates& states, std::int64_t examples, const Ints& mixed_axes, int outputs) {
  Ints names = first_axes(in[0].rank());
  for (std::int64_t axis : mixed_axes) names[static_cast<int>(axis)] = mixed;
  return named_axes_rule(in, states, examples, AxisNames(static_cast<std::size_t>(in.size()), names),
                         AxisNames(static_cast<std::size_t>(outputs), names));
}

BatchStates broadcast_rule(Inputs in, BatchStates& states, std::int64_t examples, int outputs) {
  const Shape result = broadcast_shapes("broadcast", in);
  AxisNames names;
  for (int i = 0; i < in.size(); ++i) names.push_back(broadcast_names(in[i].shape, result));
  return named_axes_rule(in, states, examples, names,
                         AxisNames(static_cast<std::size_t>(outputs), first_axes(result.rank())));
}

Ints first_axes(int count) {
  Ints names;
  for (int i = 0; i < count; ++i) names.push_back(i);
  return names;
}

Ints broadcast_names(const Shape& shape, const Shape& result) {
  const int missing = result.rank() - shape.rank();
  Ints names;
  for (int i = 0; i < shape.rank(); ++i) names.push_back(shape[i] == result[missing + i] ? missing + i : mixed);
  return names;
}

Ints reduced_names(int rank, const Ints& reduced, bool keepdims) {
  Ints names;
  for (int i = 0; i < rank; ++i)
    if (!reduced.contains(i))
      names.push_back(i);
    else if (keepdims)
      names.push_back(mixed);
  return names;
}

Ints with_front(std::int64_t entry, const Ints& entries) {
  Ints result{entry};
  for (const std::int64_t other : entries) result.push_back(other);
  return result;
}

Ints shifted_axes(const Ints& axes) {
  Ints result;
  for (const std::int64_t axis : axes) result.push_back(axis + 1);
  return result;
}

Shape resized_batch(const Shape& shape, const BatchState& out, std::int64_t examples) {
  return out.is_rows() ? shape.with(out.axis, out.rows * examples) : shape;
}

}  // namespace thalweg
