// Drops the nodes that no result or update needs, and the constants and variables that are not read any more. Loops
// keep their turns only for derivatives that are there.
//   %2 = exp %0;  %3 = sin %0;  return %3     becomes     %3 = sin %0;  return %3
#include <algorithm>

#include "thalweg/graph/control/control.h"
#include "thalweg/graph/passes/passes.h"

namespace thalweg {

Graph prune(Graph graph) {
  std::vector<bool> needed(graph.values.size(), false);
  const auto need = [&](ValueId value) { needed[static_cast<std::size_t>(value)] = true; };
  const auto is_needed = [&](ValueId value) { return needed[static_cast<std::size_t>(value)]; };
  for (ValueId value : kept_values(graph)) need(value);
  std::vector<Node> kept;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    if (std::none_of(node.outputs.begin(), node.outputs.end(), is_needed)) continue;
    forget_turns(node, is_needed);
    for (ValueId input : node.inputs) need(input);
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
  std::erase_if(graph.constants, [&](const GraphConstant& c) { return !is_needed(c.value); });
  std::erase_if(graph.variables, [&](const GraphVariable& v) { return v.update < 0 && !is_needed(v.entry); });
  std::erase_if(graph.host_numbers, [&](const HostNumber& h) { return !is_needed(h.value); });
  if (graph.random_state >= 0 && !is_needed(graph.random_state)) graph.random_state = -1;
  return graph;
}

}  // namespace thalweg
