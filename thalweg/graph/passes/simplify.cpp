// Drops nodes that leave their input as it is, and reads through chains of views; reductions over single places are
// such views, and one element that is spread out needs no reshape. Only what keeps every bit: x * 1 and x / 1 go, x + 0
// stays, since it turns -0 into 0.
//   %1 = reshape %0;  %2 = reshape %1 {as %0};  %3 = exp %2     becomes     %3 = exp %0
#include <algorithm>

#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/reduce/reduce_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

class Simplifier {
 public:
  Simplifier(Graph& graph, bool keeps_stops)
      : graph_(graph),
        keeps_stops_(keeps_stops),
        replaced_(graph.values.size()),
        maker_(graph.values.size(), nullptr),
        ones_(graph.values.size()) {
    for (const auto& [value, tensor] : graph.constants)
      if (tensor.rank() == 0 && is_float(tensor.dtype()) && tensor.item<double>() == 1)
        ones_[static_cast<std::size_t>(value)] = true;
  }

  void run() {
    for (auto& node : graph_.nodes) {
      for (ValueId& input : node.inputs) input = replaced_(input);
      reduce_nothing(node);
      look_through(node);
      spread_at_once(node);
      if (const ValueId same = unchanged_input(node); same >= 0) replaced_.set(node.outputs[0], same);
      for (ValueId output : node.outputs) maker_[static_cast<std::size_t>(output)] = &node;
    }
    replaced_.apply(graph_);
  }

 private:
  const Node* maker(ValueId value) const { return maker_[static_cast<std::size_t>(value)]; }
  bool is_one(ValueId value) const { return ones_[static_cast<std::size_t>(value)]; }

  // A reduction over axes of size 1 is a reshape.
  void reduce_nothing(Node& node) const {
    if (!is_reduction(*node.info)) return;
    const Spec &from = graph_.spec(node.inputs[0]), &to = graph_.spec(node.outputs[0]);
    if (from.dtype != to.dtype || from.size() != to.size() || to.size() == 0) return;
    node.info = &reshape_info();
    node.op = make_attributes(reshape_info(), {{"shape", to.shape}});
  }

  // One element, spread out and reshaped, is spread out to the last shape.
  void spread_at_once(Node& node) const {
    if (!is_op(node, reshape_info())) return;
    const Node* before = maker(node.inputs[0]);
    if (!before || !is_op(*before, broadcast_to_info())) return;
    const Spec &one = graph_.spec(before->inputs[0]), &to = graph_.spec(node.outputs[0]);
    if (one.size() != 1 || one.rank() > to.rank()) return;
    node.info = &broadcast_to_info();
    node.op = make_attributes(broadcast_to_info(), {{"shape", to.shape}});
    node.inputs = before->inputs;
  }

  // reshape of a reshape reads what the first one read; so does a transpose undone.
  void look_through(Node& node) const {
    if (!is_op(node, reshape_info())) return;
    while (const Node* before = maker(node.inputs[0])) {
      if (!is_op(*before, reshape_info())) return;
      node.inputs[0] = before->inputs[0];
    }
  }

  // The input that output 0 equals; -1: none.
  ValueId unchanged_input(const Node& node) const {
    if (is_op(node, stop_gradient_info())) return keeps_stops_ ? -1 : node.inputs[0];
    const bool same_spec =
        node.outputs.size() == 1 && !node.inputs.empty() && graph_.spec(node.inputs[0]) == graph_.spec(node.outputs[0]);
    if (same_spec && (is_op(node, reshape_info()) || is_op(node, cast_info()) || is_op(node, broadcast_to_info())))
      return node.inputs[0];
    if (is_op(node, transpose_info())) return undone_transpose(node);
    const RowInfo* row = row_of(*node.info);
    if (!row) return -1;
    if (same_spec && (row->row == Row::multiply || row->row == Row::divide) && is_one(node.inputs[1]))
      return node.inputs[0];
    const bool second = node.inputs.size() > 1 && graph_.spec(node.inputs[1]) == graph_.spec(node.outputs[0]);
    if (second && row->row == Row::multiply && is_one(node.inputs[0])) return node.inputs[1];
    return -1;
  }

  ValueId undone_transpose(const Node& node) const {
    const auto perm = integers_field(node, "perm");
    if (std::is_sorted(perm.begin(), perm.end())) return node.inputs[0];
    const Node* before = maker(node.inputs[0]);
    if (!before || !is_op(*before, transpose_info())) return -1;
    const auto first = integers_field(*before, "perm");
    for (std::size_t i = 0; i < perm.size(); ++i)
      if (first[static_cast<std::size_t>(perm[i])] != static_cast<std::int64_t>(i)) return -1;
    return before->inputs[0];
  }

  Graph& graph_;
  const bool keeps_stops_;
  Replacements replaced_;
  std::vector<const Node*> maker_;
  std::vector<bool> ones_;
};

}  // namespace

Graph simplify(Graph graph) {
  Simplifier(graph, false).run();
  return prune(std::move(graph));
}

Graph simplify_for_gradients(Graph graph) {
  Simplifier(graph, true).run();
  return prune(std::move(graph));
}

}  // namespace thalweg
