#include "tests/golden_runner/layer_run.h"

#include "tests/golden_runner/case_run.h"
#include "thalweg/nn/training.h"

namespace thalweg::golden {
namespace {

constexpr std::string_view weight_prefix = "weight:";

bool is_weight(const std::string& role) { return role.starts_with(weight_prefix); }

// Keras keeps the weights of recurrent layers in a cell: "weight:lstm_cell/kernel" is our "kernel".
std::string weight_name(const std::string& role) {
  std::string name = role.substr(weight_prefix.size());
  const auto cell = name.find("_cell/");
  return cell == std::string::npos ? name : name.substr(cell + 6);
}

class LayerRun : CaseRun {
 public:
  using CaseRun::CaseRun;

  Result run(const MakeLayer& make) {
    if (case_.roles.size() != case_.inputs.size()) throw Malformed("case " + case_.name + ": roles and inputs differ");
    guarded([&] {
      const LayerProgram layer = make(case_.attributes, dtype_);
      layer.module->set_weights(weights());
      const auto training = nn::training(case_.attributes.flag("training", false));
      case_.attributes.require_all_read();
      const auto variables = data_variables();
      GradientTape tape;
      const auto outputs = layer.call(inputs(variables));
      if (!layer.module->pending_weights().empty())
        throw NotUnderstood("weight \"" + layer.module->pending_weights()[0] + "\" is not one of the layer's");
      check_outputs(outputs);
      check_gradients(gradients(tape, outputs, sources(*layer.module, variables)));
      for (const auto& [name, key] : case_.weights_after)
        check(name + " after the call", find(*layer.module, name).value(), key);
    });
    return result_;
  }

 private:
  std::map<std::string, Tensor> weights() const {
    std::map<std::string, Tensor> values;
    for (std::size_t i = 0; i < case_.roles.size(); ++i)
      if (is_weight(case_.roles[i])) values[weight_name(case_.roles[i])] = load_as_input(case_.inputs[i]);
    return values;
  }

  // Data as variables, so that all sources of gradients are of one kind.
  std::map<std::string, Variable> data_variables() const {
    std::map<std::string, Variable> variables;
    for (std::size_t i = 0; i < case_.roles.size(); ++i)
      if (!is_weight(case_.roles[i])) {
        const Tensor value = load_as_input(case_.inputs[i]);
        variables[case_.roles[i]] = Variable(value, {.trainable = is_float(value.dtype())});
      }
    return variables;
  }

  LayerInputs inputs(const std::map<std::string, Variable>& variables) const {
    return {std::map<std::string, Tensor>(variables.begin(), variables.end()), dtype_};
  }

  static Variable find(const nn::Module& module, const std::string& name) {
    for (const auto& variable : module.variables())
      if (variable.name() == name) return variable;
    throw NotUnderstood("the layer has no weight \"" + name + "\"");
  }

  std::vector<Variable> sources(const nn::Module& module, const std::map<std::string, Variable>& data) const {
    std::vector<Variable> list;
    for (const auto& role : case_.roles)
      list.push_back(is_weight(role) ? find(module, weight_name(role)) : data.at(role));
    return list;
  }

  void check_gradients(const std::vector<Gradient>& got) {
    for (std::size_t i = 0; i < got.size(); ++i)
      check("gradient of " + case_.roles[i], got[i].dense(), case_.input_gradients[i]);
  }
};

}  // namespace

std::optional<Result> run_layer(const Case& c, const SafetensorsFile& tensors, DType dtype) {
  const std::string prefix = "layer/";
  if (!c.op.starts_with(prefix)) return {};
  const auto at = layer_table().find(c.op.substr(prefix.size()));
  if (at == layer_table().end()) return {};
  return LayerRun(c, tensors, dtype).run(at->second);
}

}  // namespace thalweg::golden
