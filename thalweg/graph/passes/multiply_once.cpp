// A product whose rows are all alike is computed for one of them:
//   %2 = broadcast_to %row;  %3 = matmul %2 %w     becomes     %4 = matmul %row %w;  %3 = broadcast_to %4
// and so is the product of a fill. Seeds of gradients and Jacobians are such rows: their first product costs nothing.
// Results may differ by rounding.
#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/fill/fill_op.h"
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
      if (const Node* alike = alike_rows(node))
        multiply_once(node, *alike);
      else
        graph_.nodes.push_back(node);
    return prune(std::move(graph_));
  }

 private:
  // What makes the product's first operand, if its rows are known to be alike.
  const Node* alike_rows(const Node& node) const {
    if (!is_op(node, matmul_info()) || integer_field(node, "transpose_a") != 0) return nullptr;
    const int maker = maker_[static_cast<std::size_t>(node.inputs[0])];
    if (maker < 0 || graph_.spec(node.inputs[1]).rank() != 2) return nullptr;
    const Node& made = old_[static_cast<std::size_t>(maker)];
    const Spec& rows = graph_.spec(made.outputs[0]);
    if (rows.size() == rows.shape.last()) return nullptr;
    if (is_op(made, fill_info())) return &made;
    if (!is_op(made, broadcast_to_info())) return nullptr;
    const Spec& row = graph_.spec(made.inputs[0]);
    const bool whole = row.rank() > 0 && row.shape.last() == rows.shape.last() && row.size() == row.shape.last();
    return whole ? &made : nullptr;
  }

  // One of the rows, as [1, n].
  ValueId row_of(const Node& alike) {
    const Spec &rows = graph_.spec(alike.outputs[0]), flat{rows.dtype, {1, rows.shape.last()}};
    if (is_op(alike, fill_info())) {
      Fill one = *static_cast<const Fill*>(alike.op.get());
      one.shape = flat.shape;
      return graph_.add_node(fill_info(), std::make_shared<const Fill>(one), {}, {flat}, alike.layer).outputs[0];
    }
    if (graph_.spec(alike.inputs[0]) == flat) return alike.inputs[0];
    const auto attributes = make_attributes(reshape_info(), {{"shape", flat.shape}});
    return graph_.add_node(reshape_info(), attributes, {alike.inputs[0]}, {flat}, alike.layer).outputs[0];
  }

  void multiply_once(const Node& node, const Node& alike) {
    const ValueId row = row_of(alike);
    const Spec result = graph_.spec(node.outputs[0]);
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
