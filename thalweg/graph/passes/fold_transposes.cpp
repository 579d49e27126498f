// A product reads its operand transposed for nothing: a transpose of the last two axes becomes a flag of the matmul.
//   %2 = transpose %1 {perm = [1, 0]};  %3 = matmul %0 %2     becomes     %3 = matmul %0 %1 {transpose_b = 1}
// Joined tensors are copied once: the transpose of what a concat alone makes becomes its order of axes.
#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

bool swaps_last_two(const Node& node) {
  const auto perm = integers_field(node, "perm");
  const auto rank = static_cast<std::int64_t>(perm.size());
  if (rank < 2 || perm[static_cast<std::size_t>(rank - 1)] != rank - 2) return false;
  for (std::int64_t i = 0; i < rank - 2; ++i)
    if (perm[static_cast<std::size_t>(i)] != i) return false;
  return true;
}

void join_transposed(Node& node, const Node& joined) {
  const auto perm = integers_field(node, "perm");
  node.inputs = joined.inputs;
  node.op = make_attributes(*joined.info, {{"axis", integer_field(joined, "axis")}, {"perm", std::span(perm)}});
  node.info = joined.info;
}

}  // namespace

Graph fold_transposes(Graph graph) {
  std::vector<const Node*> maker(graph.values.size(), nullptr);
  const std::vector<int> reads = count_reads(graph);
  for (auto& node : graph.nodes) {
    if (is_op(node, transpose_info())) {
      const auto input = static_cast<std::size_t>(node.inputs[0]);
      const Node* before = maker[input];
      if (before && is_op(*before, concat_info()) && reads[input] == 1 && integers_field(*before, "perm").empty() &&
          !swaps_last_two(node))  // a product may read that as it is
        join_transposed(node, *before);
    }
    if (is_op(node, matmul_info()))
      for (const auto& [which, flag] : {std::pair{0, "transpose_a"}, std::pair{1, "transpose_b"}}) {
        const auto operand = static_cast<std::size_t>(which);
        const Node* before = maker[static_cast<std::size_t>(node.inputs[operand])];
        if (!before || !is_op(*before, transpose_info()) || !swaps_last_two(*before)) continue;
        node.inputs[operand] = before->inputs[0];
        node.op = with_field(node, flag, integer_field(node, flag) == 0);
      }
    for (ValueId output : node.outputs) maker[static_cast<std::size_t>(output)] = &node;
  }
  return prune(std::move(graph));
}

}  // namespace thalweg
