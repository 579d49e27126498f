// Computes nodes whose inputs are all constants, if the outcome is small: large ones would be held in memory for good.
//   constant %1 2;  %2 = exp %1;  %3 = multiply %0 %2     becomes     constant %2 7.38906;  %3 = multiply %0 %2
#include <algorithm>

#include "thalweg/core/dispatch.h"
#include "thalweg/graph/passes/passes.h"

namespace thalweg {
namespace {

constexpr std::int64_t largest_folded = 4096;  // bytes

}  // namespace

Graph fold_constants(Graph graph) {
  std::vector<const Tensor*> known(graph.values.size(), nullptr);
  std::vector<std::pair<ValueId, Tensor>> folded;
  folded.reserve(graph.values.size());  // addresses stay
  for (const auto& constant : graph.constants) known[static_cast<std::size_t>(constant.value)] = &constant.tensor;
  std::vector<Node> rest;
  const PauseRecording no_tapes;
  for (auto& node : graph.nodes) {
    Tensors inputs;
    for (ValueId input : node.inputs)
      if (const Tensor* tensor = known[static_cast<std::size_t>(input)]) inputs.push_back(*tensor);
    const bool small = std::all_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId output) { return graph.spec(output).bytes() <= largest_folded; });
    if (inputs.empty() || inputs.size() != node.inputs.size() || !small || node.info->checks_values) {
      rest.push_back(std::move(node));
      continue;
    }
    const Tensors outputs = apply(*node.info, node.op.get(), {inputs.data(), inputs.size()});
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      folded.emplace_back(node.outputs[i], outputs[i]);
      known[static_cast<std::size_t>(node.outputs[i])] = &folded.back().second;
    }
  }
  graph.nodes = std::move(rest);
  for (auto& [value, tensor] : folded) graph.constants.push_back({value, tensor});
  return graph;
}

}  // namespace thalweg
