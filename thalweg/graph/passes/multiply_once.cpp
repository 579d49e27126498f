// A product whose rows are all alike is computed for one of them:
//   %2 = broadcast_to %row;  %3 = matmul %2 %w     becomes     %4 = matmul %row %w;  %3 = broadcast_to %4
// Seeds of Jacobians are such rows: their first product costs nothing. Results may differ by rounding.
#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

class Rewriter {
 public:
  explicit Rewriter(Graph graph) : graph_(std::move(graph)), maker_(producers(graph_)), old_(std::move(graph_.nodes)) {
    graph_.nodes.clear();
  }

  Graph run() {
    for (const Node& node : old_)
      if (const ValueId row = repeated_row(node); row >= 0)
        multiply_once(node, row);
      else
        graph_.nodes.push_back(node);
    return prune(std::move(graph_));
  }

 private:
  // What all rows of the product's first operand are; -1: they are not known to be alike.
  ValueId repeated_row(const Node& node) const {
    if (!is_op(node, matmul_info()) || integer_field(node, "transpose_a") != 0) return -1;
    const int maker = maker_[static_cast<std::size_t>(node.inputs[0])];
    if (maker < 0 || graph_.spec(node.inputs[1]).rank() != 2) return -1;
    const Node& spread = old_[static_cast<std::size_t>(maker)];
    if (!is_op(spread, broadcast_to_info())) return -1;
    const Spec &row = graph_.spec(spread.inputs[0]), &rows = graph_.spec(spread.outputs[0]);
    const bool whole = row.rank() > 0 && row.shape.last() == rows.shape.last() && row.size() == row.shape.last();
    return whole && rows.size() > row.size() ? spread.inputs[0] : -1;
  }

  void multiply_once(const Node& node, ValueId row) {
    const Spec result = graph_.spec(node.outputs[0]);
    const Spec flat{graph_.spec(row).dtype, {1, graph_.spec(row).size()}};
    if (graph_.spec(row) != flat)
      row = graph_
                .add_node(reshape_info(), make_attributes(reshape_info(), {{"shape", flat.shape}}), {row}, {flat},
                          node.layer)
                .outputs[0];
    const Spec once{result.dtype, {1, result.shape.last()}};
    const ValueId product = graph_.add_node(*node.info, node.op, {row, node.inputs[1]}, {once}, node.layer).outputs[0];
    Node spread{.info = &broadcast_to_info(),
                .op = make_attributes(broadcast_to_info(), {{"shape", result.shape}}),
                .inputs = {product},
                .outputs = node.outputs,
                .layer = node.layer};
    graph_.nodes.push_back(std::move(spread));
  }

  Graph graph_;
  std::vector<int> maker_;
  std::vector<Node> old_;
};

}  // namespace

Graph multiply_once(Graph graph) { return Rewriter(std::move(graph)).run(); }

}  // namespace thalweg
