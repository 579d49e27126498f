#include "thalweg/plan/cost.h"

#include "thalweg/graph/rewrite.h"

namespace thalweg {

double flops_of(const Graph& graph, const Node& node) {
  if (!node.info->flops) return 0;
  SmallVector<const Spec*, 4> specs;
  return node.info->flops(node.op.get(), input_specs(graph, node, specs));
}

double cost_of(const Graph& graph, const Node& node) {
  double bytes = 0;
  for (const auto* list : {&node.inputs, &node.outputs})
    for (ValueId value : *list) bytes += static_cast<double>(graph.spec(value).bytes());
  return flops_of(graph, node) / 80e9 + bytes / 10e9 + 1e-7;
}

}  // namespace thalweg
