#include "thalweg/checkpoint/item.h"

#include "thalweg/checkpoint/state.h"
#include "thalweg/core/check.h"

namespace thalweg::checkpoint {
namespace {

// Each variable has a value of its kind.
void check_specs(const Named& variables, const Values& values) {
  for (const auto& [name, variable] : variables) {
    const auto value = values.find(name);
    TW_CHECK_USER(value != values.end() && value->second.spec() == variable.spec(), "checkpoint",
                  "the checkpoint belongs to another model, or to an optimizer with other options",
                  "\"{}\": expected {} {}, got {}", name, variable.shape(), variable.dtype(),
                  value == values.end() ? "nothing" : value->second.shape().to_string());
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

}  // namespace

Item::Item(nn::Module* module)
    : Item(
          "module",
          [module] {
            return ItemState{values_of(named(*module)), {}};
          },
          [module](const ItemState& state) { module->set_weights(state.tensors); },
          [module](const ItemState& state) { check_weights(*module, state.tensors, true); }) {}

Item::Item(optim::Optimizer* optimizer)
    : Item(
          "optimizer",
          [optimizer] {
            return ItemState{values_of(optimizer->state()), {}};
          },
          [optimizer](const ItemState& state) { optimizer->set_state(state.tensors); },
          [optimizer](const ItemState& state) { check_specs(optimizer->state(), state.tensors); }) {}

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
          [iterator](const ItemState& state) { iterator->restore(data::State::from_string(state.text)); }) {}

Item::Item(LossScale* scale)
    : Item(
          "loss_scale",
          [scale] {
            return ItemState{values_of(named(*scale)), {}};
          },
          [scale](const ItemState& state) { assign(named(*scale), state.tensors); },
          [scale](const ItemState& state) { check_specs(named(*scale), state.tensors); }) {}

}  // namespace thalweg::checkpoint
