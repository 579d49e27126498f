// Computes nodes whose inputs are all constants, if the outcome is small: large ones would be held in memory for good,
// and so is what is only spread out, since fused programs spread it themselves.
//   constant %1 2;  %2 = exp %1;  %3 = multiply %0 %2     becomes     constant %2 7.38906;  %3 = multiply %0 %2
#include <algorithm>

#include "thalweg/core/dispatch.h"
#include "thalweg/core/tracer.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

constexpr std::int64_t largest_folded = 4096;  // bytes

bool may_fold(const Graph& graph, const Node& node) {
  if (node.inputs.empty() && !(is_op(node, fill_info()) && graph.spec(node.outputs[0]).rank() == 0)) return false;
  std::int64_t read = memory::alignment;
  for (ValueId input : node.inputs) read += graph.spec(input).bytes();
  const std::int64_t most = std::min(read, largest_folded);
  return !node.info->checks_values && std::all_of(node.outputs.begin(), node.outputs.end(),
                                                  [&](ValueId output) { return graph.spec(output).bytes() <= most; });
}

}  // namespace

Graph fold_constants(Graph graph) {
  std::vector<const Tensor*> known(graph.values.size(), nullptr);
  std::vector<std::pair<ValueId, Tensor>> folded;
  folded.reserve(graph.values.size());  // addresses stay
  for (const auto& constant : graph.constants) known[static_cast<std::size_t>(constant.value)] = &constant.tensor;
  std::vector<Node> rest;
  const PauseRecording no_tapes;
  const TraceScope at_once(nullptr);  // a loop over known values runs, and is compiled, while a function is traced
  for (auto& node : graph.nodes) {
    Tensors inputs;
    for (ValueId input : node.inputs)
      if (const Tensor* tensor = known[static_cast<std::size_t>(input)]) inputs.push_back(*tensor);
    if (inputs.size() != node.inputs.size() || !may_fold(graph, node)) {
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
