#include "thalweg/checkpoint/state.h"

#include <shared_mutex>

#include "thalweg/core/check.h"
#include "thalweg/core/variable_storage.h"

namespace thalweg::checkpoint {

Named named(const nn::Module& module) {
  Named by_name;
  for (const auto& variable : module.variables())
    TW_CHECK_USER(by_name.emplace(variable.name(), variable).second, "checkpoint",
                  "names tell weights apart: give the modules different ones",
                  "expected weights of different names, got \"{}\" twice", variable.name());
  return by_name;
}

Values values_of(const Named& variables) {
  std::vector<Variable> list;
  for (const auto& [name, variable] : variables) list.push_back(variable);
  const auto gates = VariableStorage::gates(list);
  std::vector<std::shared_lock<std::shared_mutex>> at_rest;
  for (const auto& gate : gates) at_rest.emplace_back(gate->mutex);
  Values values;
  for (const auto& [name, variable] : variables) values.emplace(name, VariableStorage::snapshot(variable).first);
  return values;
}

void check_weights(const nn::Module& module, const Values& values, bool strict) {
  const Named variables = named(module);
  for (const auto& [name, variable] : variables) {
    const auto value = values.find(name);
    if (value == values.end() && !strict) continue;
    TW_CHECK(not_found, value != values.end(), "load_weights",
             "the weights belong to another model; {.strict = false} keeps what is not there",
             "expected a value for weight \"{}\", got none", name);
    TW_CHECK_USER(
        value->second.shape() == variable.shape() && is_float(value->second.dtype()) == is_float(variable.dtype()),
        "load_weights", "the weights belong to a model of another size", "weight \"{}\": expected {} {}, got {} {}",
        name, variable.shape(), variable.dtype(), value->second.shape(), value->second.dtype());
  }
  if (!strict || variables.empty()) return;
  for (const auto& [name, value] : values)
    TW_CHECK_USER(variables.contains(name) || may_be_made(module, name), "load_weights",
                  "the weights belong to another model; {.strict = false} keeps them for layers that are not built yet",
                  "expected weights of this model, got \"{}\", which it does not have", name);
}

}  // namespace thalweg::checkpoint
