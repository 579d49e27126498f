#include "thalweg/autodiff/seed_map.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "thalweg/core/tracer.h"
#include "thalweg/ops/attention/gradients.h"
#include "thalweg/ops/concat/row_stack.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/fill/fill.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/row_ops.h"
#include "thalweg/ops/slice/slice.h"
#include "thalweg/ops/tile/tile.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg {
namespace {

bool is_one_of(const OpInfo& info, std::initializer_list<const OpInfo*> list) {
  return std::find(list.begin(), list.end(), &info) != list.end();
}

// Missing leading axes of an operand are taken as axes of size 1.
bool broadcasts(const OpInfo& info) {
  return row_of(info) || is_one_of(info, {&fused_info(), &matmul_info(), &cast_info(), &copy_info()});
}

// [n, ...] -> [..., n * size, ...]: the entries of the leading axis one after the other along `axis` of the rest.
Tensor merged(const Tensor& entries, int axis) {
  Ints perm, sizes;
  for (int i = 0; i < entries.rank(); ++i) {
    perm.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
    if (i > 0) sizes.push_back(entries.shape()[i] * (i - 1 == axis ? entries.shape()[0] : 1));
  }
  return reshape(axis == 0 ? entries : transpose(entries, perm), Shape(sizes));
}

// The way back.
Tensor parted(const Tensor& merged, int axis, std::int64_t entries) {
  Ints perm{axis}, sizes;
  for (int i = 0; i < merged.rank(); ++i) {
    if (i == axis) sizes.push_back(entries);
    sizes.push_back(i == axis ? merged.shape()[i] / entries : merged.shape()[i]);
  }
  for (int i = 0; i < merged.rank() + 1; ++i)
    if (i != axis) perm.push_back(i);
  const Tensor apart = reshape(merged, Shape(sizes));
  return axis == 0 ? apart : transpose(apart, perm);
}

Tensor repeated(const Tensor& x, int axis, std::int64_t times) {
  Ints multiples(x.rank(), 1);
  multiples[axis] = times;
  return tile(x, multiples);
}

std::vector<Tensor> as_list(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

std::vector<Tensor> call(const OpInfo& info, const void* op, const std::vector<Tensor>& inputs) {
  return as_list(apply(info, op, inputs));
}

}  // namespace

// The axis of each input and output along which the seeds follow each other.
struct SeedMap::Growth {
  BatchStates inputs, outputs;
  std::int64_t moved = std::numeric_limits<std::int64_t>::max();  // bytes that are copied for it; all: it cannot
  bool possible() const { return moved != std::numeric_limits<std::int64_t>::max(); }
};

SeedMap::SeedMap(std::int64_t seeds) : seeds_(seeds), outer_(mapper()) {}

std::shared_ptr<const SeedMap::Held> SeedMap::find(const Tensor& tensor) const {
  if (!tensor.defined() || !is_symbolic(tensor)) return nullptr;
  const auto* held = held_.find(tensor.id());
  return held ? held->lock() : nullptr;
}

Tensor SeedMap::stand_in(const Tensor& entries, const Shape& shape) {
  const auto held = std::make_shared<const Held>(Held{"jacobian", entries});
  Tensor symbol = make_symbolic({entries.dtype(), shape}, Buffer::symbolic({held, &held->name}));
  held_[symbol.id()] = held;
  return symbol;
}

Tensor SeedMap::flat_entries(const Tensor& tensor) const {
  const Shape shape{seeds_, tensor.size()};
  if (const auto held = find(tensor)) return reshape(held->entries, shape);
  return broadcast_to(reshape(tensor, {1, tensor.size()}), shape);
}

Tensor SeedMap::entries(const Tensor& tensor) const {
  return reshape(flat_entries(tensor), concatenate({seeds_}, tensor.shape()));
}

// As an operand of an op whose operands broadcast to this rank.
Tensor SeedMap::aligned(const Tensor& tensor, int rank) const {
  const auto held = find(tensor);
  if (!held) return tensor;
  const Shape ones(Ints(rank - tensor.rank(), 1));
  return reshape(held->entries, concatenate(concatenate({seeds_}, ones), tensor.shape()));
}

std::vector<const Spec*> SeedMap::specs_of(std::span<const Tensor> inputs) const {
  std::vector<const Spec*> specs;
  for (const auto& input : inputs) specs.push_back(&input.spec());
  return specs;
}

Tensors SeedMap::stand_ins(const std::vector<Tensor>& results, const Specs& outputs) {
  Tensors symbols;
  for (std::size_t i = 0; i < results.size(); ++i) symbols.push_back(stand_in(results[i], outputs[i].shape));
  return symbols;
}

Tensors SeedMap::map(const OpInfo& info, const void* op, std::span<const Tensor> inputs, const Specs& outputs) {
  const MapScope outside(outer_);
  const auto full = [](const Spec& spec) { return spec.rank() == max_rank; };  // no room for one more axis
  const bool fits = std::none_of(outputs.begin(), outputs.end(), full) &&
                    std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& t) { return full(t.spec()); });
  if (fits) {
    if (broadcasts(info)) return stand_ins(broadcast(info, op, inputs), outputs);
    const Shape result = concatenate({seeds_}, outputs[0].shape);
    if (&info == &reshape_info()) return stand_ins({reshape(entries(inputs[0]), result)}, outputs);
    if (&info == &broadcast_to_info())
      return stand_ins({broadcast_to(aligned(inputs[0], outputs[0].rank()), result)}, outputs);
    if (&info == &dropout_info()) return stand_ins(drop_out(info, op, inputs), outputs);
    if (info.lifted) return stand_ins(lift(info, op, inputs), outputs);
    if (const Growth growth = find_growth(info, op, inputs, outputs); growth.possible())
      return stand_ins(grow(info, op, inputs, outputs, growth), outputs);
  }
  const auto one = [&](const std::vector<Tensor>& list) { return call(info, op, list); };
  const auto looped = loop(inputs, one);
  return Tensors(looped);
}

std::vector<Tensor> SeedMap::broadcast(const OpInfo& info, const void* op, std::span<const Tensor> inputs) const {
  int rank = 0;
  for (const auto& input : inputs) rank = std::max(rank, input.rank());
  std::vector<Tensor> list;
  for (const auto& input : inputs) list.push_back(aligned(input, rank));
  return call(info, op, list);
}

std::vector<Tensor> SeedMap::lift(const OpInfo& info, const void* op, std::span<const Tensor> inputs) const {
  std::vector<Tensor> list;
  for (const auto& input : inputs) list.push_back(entries(input));
  return call(info, info.lifted(op, Inputs(specs_of(inputs)), seeds_).get(), list);
}

// Its elements are numbered, so that one more axis would give every seed a mask of its own.
std::vector<Tensor> SeedMap::drop_out(const OpInfo& info, const void* op, std::span<const Tensor> inputs) const {
  std::vector<Tensor> list(inputs.begin(), inputs.end());
  list[0] = fill(inputs[0].shape(), 1, inputs[0].dtype());
  const Tensor factors = call(info, op, list)[0];
  return {where(factors != 0, entries(inputs[0]) * factors, 0)};
}

// The axis of the first input with seeds that costs the fewest copies; all seeds lie along it, and in all outputs.
SeedMap::Growth SeedMap::find_growth(const OpInfo& info, const void* op, std::span<const Tensor> inputs,
                                     const Specs& outputs) const {
  Growth best;
  if (!info.batch_rule || drops_weights(info, op)) return best;
  const auto specs = specs_of(inputs);
  const auto lead = std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& t) { return maps(t); });
  const auto place = static_cast<std::size_t>(lead - inputs.begin());
  for (int axis = 0; axis < lead->rank(); ++axis) {
    if (lead->shape()[axis] == 0) continue;
    Growth growth{BatchStates(inputs.size()), {}, 0};
    growth.inputs[place] = BatchState::of_rows(axis, lead->shape()[axis]);
    growth.outputs = info.batch_rule(op, Inputs(specs), growth.inputs, 1);
    bool possible = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool mapped = maps(inputs[i]), rows = growth.inputs[i].is_rows();
      possible &= rows || !mapped;
      if (rows && (!mapped || growth.inputs[i].axis > 0)) growth.moved += inputs[i].spec().bytes();
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      possible &= growth.outputs[i].is_rows();
      if (growth.outputs[i].axis > 0) growth.moved += outputs[i].bytes();
    }
    if (possible && growth.moved < best.moved) best = growth;
  }
  return best;
}

std::vector<Tensor> SeedMap::grow(const OpInfo& info, const void* op, std::span<const Tensor> inputs,
                                  const Specs& outputs, const Growth& growth) const {
  std::vector<Tensor> list;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const BatchState& state = growth.inputs[i];
    list.push_back(!state.is_rows()  ? inputs[i]
                   : maps(inputs[i]) ? merged(entries(inputs[i]), state.axis)
                                     : repeated(inputs[i], state.axis, seeds_));
  }
  const auto grown = info.with_batch ? info.with_batch(op, growth.outputs[0], seeds_) : info.copy(op);
  std::vector<Tensor> results = call(info, grown.get(), list);
  for (std::size_t i = 0; i < outputs.size(); ++i) results[i] = parted(results[i], growth.outputs[i].axis, seeds_);
  return results;
}

std::vector<Tensor> SeedMap::loop(std::span<const Tensor> inputs, const ListFunction& f) {
  std::vector<std::optional<RowStack>> stacks;
  std::vector<Tensor> firsts;  // of each result, once it was defined
  for (std::int64_t seed = 0; seed < seeds_; ++seed) {
    std::vector<Tensor> list;
    for (const auto& input : inputs) {
      const auto one = [&] { return slice(flat_entries(input), {seed, 0}, {1, input.size()}); };
      list.push_back(maps(input) ? reshape(one(), input.shape()) : input);
    }
    const auto results = f(list);
    stacks.resize(results.size()), firsts.resize(results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!firsts[i].defined() && !results[i].defined()) continue;
      const std::int64_t missed = firsts[i].defined() ? 0 : seed;  // seeds before the first that has this result
      if (!firsts[i].defined()) firsts[i] = results[i], stacks[i].emplace(1, seeds_);
      const Tensor& shape = firsts[i];
      for (std::int64_t k = 0; k < missed; ++k) stacks[i]->add(zeros(shape.shape(), shape.dtype()));
      stacks[i]->add(results[i].defined() ? results[i] : zeros(shape.shape(), shape.dtype()));
    }
  }
  std::vector<Tensor> symbols(firsts.size());
  for (std::size_t i = 0; i < firsts.size(); ++i)
    if (firsts[i].defined()) symbols[i] = stand_in(stacks[i]->result(), firsts[i].shape());
  return symbols;
}

std::vector<Tensor> for_each_seed(const std::vector<Tensor>& seeds, const SeedMap::ListFunction& f) {
  for (Mapper* found = mapper(); found; found = found->outer())
    if (std::any_of(seeds.begin(), seeds.end(), [&](const Tensor& seed) { return found->maps(seed); })) {
      const MapScope outside(found->outer());
      const auto one = [&](const std::vector<Tensor>& list) { return for_each_seed(list, f); };
      return static_cast<SeedMap*>(found)->loop(seeds, one);  // the only kind of mapper there is
    }
  return f(seeds);
}

}  // namespace thalweg
