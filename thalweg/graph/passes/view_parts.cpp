// Parts that each lie in one stretch need no copies: a split along an axis with nothing but single places before it
// becomes slices, which are views. Its gradient, one concat, has been written by then.
//   %1, %2 = split %0 {sizes = [1, 2], axis = 0}     becomes     %1 = slice %0 …;  %2 = slice %0 …
#include "thalweg/graph/passes/matching.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

void cut_in_place(int index, const Node& node, Edits& edits) {
  const Spec& whole = edits.spec(node.inputs[0]);
  const auto axis = static_cast<int>(integer_field(node, "axis"));
  if (whole.shape.product(0, axis) != 1) return;
  std::vector<std::int64_t> begin(static_cast<std::size_t>(whole.rank()), 0);
  for (const ValueId part : node.outputs) {
    const Shape size = edits.spec(part).shape;
    auto op = make_attributes(slice_info(), {{"begin", begin}, {"size", size}});
    edits.replace(part, edits.insert(index, slice_info(), std::move(op), {node.inputs[0]})[0]);
    begin[static_cast<std::size_t>(axis)] += size[axis];
  }
}

}  // namespace

Graph view_parts(Graph graph) {
  Edits edits(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (is_op(graph.nodes[i], split_info())) cut_in_place(static_cast<int>(i), graph.nodes[i], edits);
  return prune(std::move(edits).apply());
}

}  // namespace thalweg
