// Computes nodes of the same op, attributes and inputs once, in forward and backward alike.
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

}  // namespace

Graph eliminate_common(Graph graph) {
  Replacements replaced(graph.values.size());
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
