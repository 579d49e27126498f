#include "thalweg/graph/graph.h"

#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/tracer.h"

namespace thalweg {

ValueId Graph::add_value(const Spec& spec) {
  values.push_back(spec);
  return static_cast<ValueId>(values.size()) - 1;
}

const Node& Graph::add_node(const OpInfo& info, std::shared_ptr<const void> op, ValueIds inputs, const Specs& outputs,
                            Layer layer) {
  Node node{&info, std::move(op), std::move(inputs), {}, layer};
  for (const auto& spec : outputs) node.outputs.push_back(add_value(spec));
  return nodes.emplace_back(std::move(node));
}

ValueId Graph::add_constant(const Tensor& tensor) {
  const auto bytes = static_cast<std::size_t>(tensor.bytes());
  for (const auto& other : constants) {
    if (other.tensor.id() == tensor.id()) return other.value;
    if (tensor.rank() == 0 && other.tensor.spec() == tensor.spec() &&
        std::memcmp(other.tensor.impl().data, tensor.impl().data, bytes) == 0)
      return other.value;
  }
  constants.push_back({add_value(tensor.spec()), tensor});
  return constants.back().value;
}

const Tensor* Graph::constant(ValueId value) const {
  for (const auto& constant : constants)
    if (constant.value == value) return &constant.tensor;
  return nullptr;
}

std::vector<int> producers(const Graph& graph) {
  std::vector<int> producer(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (ValueId output : graph.nodes[i].outputs) producer[static_cast<std::size_t>(output)] = static_cast<int>(i);
  return producer;
}

std::vector<ValueId> kept_values(const Graph& graph) {
  std::vector<ValueId> kept = graph.results;
  for (const auto& variable : graph.variables)
    if (variable.update >= 0) kept.push_back(variable.update);
  for (const auto& carry : graph.carries) kept.push_back(carry.update);
  return kept;
}

std::vector<int> count_reads(const Graph& graph) {
  std::vector<int> reads(graph.values.size(), 0);
  for (const auto& node : graph.nodes)
    for (ValueId input : node.inputs) ++reads[static_cast<std::size_t>(input)];
  for (ValueId value : kept_values(graph)) ++reads[static_cast<std::size_t>(value)];
  return reads;
}

Tensors replay(const Graph& graph, std::span<const Tensor> arguments) {
  TW_CHECK_INTERNAL(graph.variables.empty() && graph.host_numbers.empty() && arguments.size() == graph.arguments.size(),
                    "function", "replay of a graph with variables, or with {} arguments instead of {}",
                    arguments.size(), graph.arguments.size());
  std::vector<Tensor> values(graph.values.size());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    values[static_cast<std::size_t>(graph.arguments[i])] = arguments[i];
  for (const auto& constant : graph.constants) values[static_cast<std::size_t>(constant.value)] = constant.tensor;
  for (const auto& node : graph.nodes) {
    Tensors inputs;
    for (ValueId input : node.inputs) inputs.push_back(values[static_cast<std::size_t>(input)]);
    const LayerScope layer(node.layer);
    const Tensors outputs = apply(*node.info, node.op.get(), {inputs.data(), inputs.size()});
    for (std::size_t i = 0; i < outputs.size(); ++i) values[static_cast<std::size_t>(node.outputs[i])] = outputs[i];
  }
  Tensors results;
  for (ValueId result : graph.results) results.push_back(values[static_cast<std::size_t>(result)]);
  return results;
}

}  // namespace thalweg
