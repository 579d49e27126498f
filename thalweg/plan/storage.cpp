#include "thalweg/plan/storage.h"

#include <algorithm>
#include <numeric>

#include "thalweg/graph/rewrite.h"

namespace thalweg {

Storages::Storages(const Graph& graph)
    : roots_(graph.values.size()), offsets_(graph.values.size(), 0), producers_(producers(graph)) {
  std::iota(roots_.begin(), roots_.end(), 0);
  for (const auto& node : graph.nodes) {
    if (!node.info->alias) continue;
    SmallVector<const Spec*, 4> specs;
    const std::int64_t offset = node.info->alias(node.op.get(), input_specs(graph, node, specs));
    if (offset < 0) continue;
    const auto from = static_cast<std::size_t>(node.inputs[0]), to = static_cast<std::size_t>(node.outputs[0]);
    roots_[to] = roots_[from];
    offsets_[to] = offsets_[from] + offset;
  }
}

bool Storages::may_take(const Graph& graph, const Node& node, ValueId value) const {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return root(input) != root(value) || graph.spec(input) == graph.spec(value);
  });
}

}  // namespace thalweg
