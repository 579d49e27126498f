// Computes nodes of the same op, attributes and inputs once, in forward and backward alike. Small constants of the same
// bits are one: folding makes many of them, and chains of equal nodes begin there.
//   %2 = exp %0;  %3 = exp %0;  %4 = add %2 %3     becomes     %2 = exp %0;  %4 = add %2 %2
#include <unordered_map>

#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"

namespace thalweg {
namespace {

std::string key_of(const Node& node) {
  std::string key = node.info->name;
  for (ValueId input : node.inputs) key += ' ' + std::to_string(input);
  return key + ' ' + fields::key(node.info->visit, node.op.get());
}

constexpr std::int64_t largest_compared = 4096;  // bytes

void join_constants(Graph& graph, Replacements& replaced) {
  std::unordered_map<std::string, ValueId> seen;
  std::vector<GraphConstant> kept;
  for (auto& constant : graph.constants) {
    const Tensor& tensor = constant.tensor;
    if (tensor.bytes() <= largest_compared) {
      std::string key = std::to_string(static_cast<int>(tensor.dtype())) + tensor.shape().to_string();
      key.append(static_cast<const char*>(tensor.impl().data), static_cast<std::size_t>(tensor.bytes()));
      const auto [at, is_new] = seen.try_emplace(std::move(key), constant.value);
      if (!is_new) {
        replaced.set(constant.value, at->second);
        continue;
      }
    }
    kept.push_back(std::move(constant));
  }
  graph.constants = std::move(kept);
}

}  // namespace

Graph eliminate_common(Graph graph) {
  Replacements replaced(graph.values.size());
  join_constants(graph, replaced);
  std::unordered_map<std::string, const Node*> seen;
  std::vector<Node> kept;
  kept.reserve(graph.nodes.size());  // addresses stay
  for (auto& node : graph.nodes) {
    for (ValueId& input : node.inputs) input = replaced(input);
    const auto [at, is_new] = seen.try_emplace(key_of(node), nullptr);
    if (!is_new) {
      for (std::size_t i = 0; i < node.outputs.size(); ++i) replaced.set(node.outputs[i], at->second->outputs[i]);
      continue;
    }
    kept.push_back(std::move(node));
    at->second = &kept.back();
  }
  graph.nodes = std::move(kept);
  replaced.apply(graph);
  return graph;
}

}  // namespace thalweg
