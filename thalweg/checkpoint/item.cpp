#include "thalweg/checkpoint/item.h"

#include <algorithm>

#include "thalweg/checkpoint/state.h"
#include "thalweg/core/check.h"
#include "thalweg/core/mask.h"
#include "thalweg/core/retired.h"
#include "thalweg/ops/creation/creation.h"

namespace thalweg::checkpoint {
namespace {

// Each variable has a value of its kind.
void check_specs(const Named& variables, const Values& values) {
  for (const auto& [name, variable] : variables) {
    const auto value = values.find(name);
    TW_CHECK_USER(
        value != values.end() && value->second.spec() == variable.spec(), "checkpoint",
        "the checkpoint belongs to another model, or to an optimizer with other options",
        "\"{}\": expected {} {}, got {}", variable.name(), variable.shape(), variable.dtype(),
        value == values.end() ? "nothing" : fmt::format("{} {}", value->second.shape(), value->second.dtype()));
  }
}

Named named(const LossScale& scale) {
  Named by_name;
  for (const auto& variable : scale.variables()) by_name.emplace(variable.name(), variable);
  return by_name;
}

void assign(const Named& variables, const Values& values) {
  for (auto [name, variable] : variables) variable.assign(values.at(name));
}

// While another thread trains, other variables may take the place of some that were just asked for.
Values values_of_state(const optim::Optimizer& optimizer) {
  while (true) {
    const Named state = optimizer.state();
    Values values = values_of(state);
    if (std::none_of(state.begin(), state.end(), [](const auto& named) { return is_retired(named.second); }))
      return values;
  }
}

// The masks of weights that are pruned, under names of their own.
Named masks_of(const nn::Module& module) {
  Named masks;
  for (const auto& variable : module.variables())
    if (const Variable mask = mask_of(variable); mask.defined()) masks.emplace(mask_name(variable), mask);
  return masks;
}

Named with_masks(const nn::Module& module) {
  Named all = checkpoint::named(module);
  all.merge(masks_of(module));
  return all;
}

// A checkpoint from before weights were pruned: all of them are kept again.
void load_module(nn::Module& module, const ItemState& state) {
  Values values = state.tensors;
  if (values.empty() && module.variables().empty()) return;  // neither has been called
  for (const auto& [name, mask] : masks_of(module)) values.try_emplace(name, full(mask.shape(), true, boolean));
  module.set_weights(values, {.complete = module.variables().empty(), .source = state.place});
}

// Before the first call, names alone can tell that values are of another module.
void check_path(const std::string& path, const Values& values) {
  for (const auto& [name, value] : values)
    TW_CHECK_USER(path.empty() || name.starts_with(path + "/"), "checkpoint",
                  "the checkpoint belongs to another model, or to one of another name",
                  "expected weights of module \"{}\", got \"{}\"", path, name);
}

// Masks fit the weights beside them, and the weights fit the module.
void check_module(const nn::Module& module, Values values) {
  if (module.variables().empty()) check_path(module.path(), values);
  for (auto at = values.begin(); at != values.end();) {
    const auto& [name, mask] = *at;
    const auto weight = name.ends_with("/mask") ? values.find(name.substr(0, name.rfind('/'))) : values.end();
    const bool is_mask = mask.dtype() == boolean && weight != values.end();
    if (is_mask)
      TW_CHECK_USER(mask.shape() == weight->second.shape(), "checkpoint",
                    "the checkpoint is damaged, or of another model",
                    "\"{}\": expected the shape of its weight, {}, got {}", name, weight->second.shape(), mask.shape());
    at = is_mask ? values.erase(at) : std::next(at);
  }
  check_weights(module, values, true);
}

}  // namespace

Item::Item(nn::Module* module)
    : Item(
          "module",
          [module] {
            ItemState state{values_of(with_masks(*module)), {}};
            state.tensors.merge(waiting_values(*module));
            return state;
          },
          [module](const ItemState& state) { load_module(*module, state); },
          [module](const ItemState& state) { check_module(*module, state.tensors); }) {}

Item::Item(optim::Optimizer* optimizer)
    : Item(
          "optimizer",
          [optimizer] {
            return ItemState{values_of_state(*optimizer), {}};
          },
          [optimizer](const ItemState& state) { optimizer->set_state(state.tensors); },
          [optimizer](const ItemState& state) { optimizer->check_state(state.tensors); }) {}

Item::Item(Variable* variable)
    : Item(
          "variable",
          [variable] {
            return ItemState{values_of({{"value", *variable}}), {}};
          },
          [variable](const ItemState& state) {
            assign({{"value", *variable}}, state.tensors);
          },
          [variable](const ItemState& state) {
            check_specs({{"value", *variable}}, state.tensors);
          }) {}

Item::Item(data::Iterator* iterator)
    : Item(
          "iterator",
          [iterator] {
            return ItemState{{}, iterator->save_state().to_string()};
          },
          [iterator](const ItemState& state) { iterator->restore(data::State::from_string(state.text)); },
          [iterator](const ItemState& state) { iterator->check_state(data::State::from_string(state.text)); }) {}

Item::Item(LossScale* scale)
    : Item(
          "loss_scale",
          [scale] {
            return ItemState{values_of(named(*scale)), {}};
          },
          [scale](const ItemState& state) { assign(named(*scale), state.tensors); },
          [scale](const ItemState& state) { check_specs(named(*scale), state.tensors); }) {}

}  // namespace thalweg::checkpoint
