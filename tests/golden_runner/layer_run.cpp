#include "tests/golden_runner/layer_run.h"

#include "tests/golden_runner/case_run.h"
#include "thalweg/nn/training.h"
#include "thalweg/plan/function.h"

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
    guarded([&] { call(make, false); });
    guarded([&] { call(make, true); });
    return result_;
  }

 private:
  // One call of a new layer, with gradients. Compiled: it is built, called and differentiated in a function.
  void call(const MakeLayer& make, bool compiled) {
    const LayerProgram layer = make(case_.attributes, dtype_);
    layer.module->set_weights(weights());
    const auto training = nn::training(case_.attributes.flag("training", false));
    case_.attributes.require_all_read();
    const auto variables = data_variables();
    std::vector<bool> defined;  // a function returns only what is
    const auto all = [&] {
      GradientTape tape;
      std::vector<Tensor> results = layer.call(inputs(variables));
      for (const auto& gradient : gradients(tape, results, sources(*layer.module, variables)))
        results.push_back(gradient.dense());
      defined.clear();
      for (const auto& result : results) defined.push_back(result.defined());
      std::erase_if(results, [](const Tensor& result) { return !result.defined(); });
      return results;
    };
    const auto got = compiled ? function(all)() : all();
    if (!layer.module->pending_weights().empty())
      throw NotUnderstood("weight \"" + layer.module->pending_weights()[0] + "\" is not one of the layer's");
    std::vector<Tensor> results(defined.size());
    for (std::size_t i = 0, next = 0; i < results.size(); ++i)
      if (defined[i]) results[i] = got[next++];
    check_results(compiled ? "compiled " : "", results, *layer.module);
  }

  // Outputs, then the gradients of all inputs, and the weights that the call changed.
  void check_results(const std::string& how, const std::vector<Tensor>& results, const nn::Module& module) {
    const std::size_t outputs = results.size() - case_.roles.size();
    check_outputs({results.begin(), results.begin() + static_cast<std::ptrdiff_t>(outputs)}, how);
    for (std::size_t i = 0; i < case_.roles.size(); ++i)
      check(how + "gradient of " + case_.roles[i], results[outputs + i], case_.input_gradients[i]);
    for (const auto& [name, key] : case_.weights_after)
      check(how + name + " after the call", find(module, name).value(), key);
  }

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
