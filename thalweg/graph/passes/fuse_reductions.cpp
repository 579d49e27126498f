// Joins a program with the reduction that alone reads its result, which then never stands in memory.
//   %1 = fused %0 {rows = square};  %2 = reduce_sum %1     becomes     %2 = fused_reduce %0 {rows = square, reduce_sum}
// Elements are added in the order in which the reduction by itself adds them: the bits stay the same.
#include <algorithm>

#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/fused/fused_reduce.h"
#include "thalweg/ops/reduce/reduce_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

// Whether the node is a program that makes this value and nothing else, in the type that it computes in: that of its
// floats, or f32 where it has none.
bool makes_only(const Graph& graph, const Node& node, ValueId value) {
  const DType dtype = graph.spec(value).dtype;
  if (!is_op(node, fused_info()) || node.outputs.size() != 1) return false;
  const bool has_float = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId input) { return is_float(graph.spec(input).dtype); });
  return dtype == f32 || (dtype == f64 && has_float);
}

}  // namespace

Graph fuse_reductions(Graph graph) {
  const std::vector<int> makers = producers(graph), reads = count_reads(graph);
  for (auto& node : graph.nodes) {
    if (!is_reduction(*node.info)) continue;
    const ValueId value = node.inputs[0];
    const int maker = makers[static_cast<std::size_t>(value)];
    if (maker < 0 || reads[static_cast<std::size_t>(value)] != 1) continue;
    const Node& program = graph.nodes[static_cast<std::size_t>(maker)];
    if (!makes_only(graph, program, value)) continue;
    node.op = make_fused_reduce(std::make_shared<const Program>(program_of(program.op.get())), *node.info, node.op);
    node.info = &fused_reduce_info();
    node.inputs = program.inputs;
  }
  return prune(std::move(graph));
}

}  // namespace thalweg
