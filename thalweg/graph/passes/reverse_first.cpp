// Axes are walked backwards where elements are smallest: what is computed element by element does not mind the order.
//   %1 = cast %0 {f32};  %2 = divide %1 255;  %3 = reverse %2
//   becomes     %4 = reverse %0;  %5 = cast %4 {f32};  %3 = divide %5 255
// Images are such bytes. The arithmetic joins the program that reads it, and there is little of it: four operations of
// arithmetic with numbers.
#include <algorithm>

#include "thalweg/graph/passes/matching.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

constexpr std::size_t longest_chain = 8;  // nodes computed twice at most, if others read the value as it was

// Whether every place is taken once, from either end.
bool is_reverse(const Graph& graph, const Node& node) {
  if (!is_op(node, strided_slice_info()) || graph.spec(node.inputs[0]) != graph.spec(node.outputs[0])) return false;
  const auto strides = integers_field(node, "strides");
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 1 || stride == -1; });
}

bool is_arithmetic(const Node& node) {
  const RowInfo* row = row_of(*node.info);
  return row &&
         (row->row == Row::add || row->row == Row::subtract || row->row == Row::multiply || row->row == Row::divide);
}

class Rewriter {
 public:
  explicit Rewriter(const Graph& graph) : graph_(graph), view_(graph), edits_(graph) {}

  Graph run() {
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i)
      if (is_reverse(graph_, view_.node(i))) reverse_smallest(i);
    return std::move(edits_).apply();
  }

 private:
  std::int64_t element_bytes(ValueId value) const { return size_of(graph_.spec(value).dtype); }

  // Which input a node computes its result from, element by element; -1: none.
  int elements_of(const Node& node) const {
    if (is_op(node, cast_info())) return 0;
    if (!is_arithmetic(node)) return -1;
    const Shape& shape = graph_.spec(node.outputs[0]).shape;
    for (const int which : {0, 1}) {
      const ValueId x = node.inputs[static_cast<std::size_t>(which)],
                    number = node.inputs[static_cast<std::size_t>(1 - which)];
      if (graph_.spec(x).shape == shape && graph_.spec(number).rank() == 0 && graph_.constant(number)) return which;
    }
    return -1;
  }

  struct Link {
    const Node* node;
    std::size_t input;
  };

  // The nodes between the value and the smallest elements that it is computed from, the last one first.
  std::vector<Link> chain_to(ValueId value) const {
    std::vector<Link> chain;
    std::size_t kept = 0;
    std::int64_t smallest = element_bytes(value);
    while (chain.size() < longest_chain) {
      const Node* maker = view_.maker(value);
      const int input = maker ? elements_of(*maker) : -1;
      if (input < 0) break;
      chain.push_back({maker, static_cast<std::size_t>(input)});
      value = maker->inputs[static_cast<std::size_t>(input)];
      if (element_bytes(value) < smallest) smallest = element_bytes(value), kept = chain.size();
    }
    chain.resize(kept);
    return chain;
  }

  void reverse_smallest(int index) {
    const Node& node = view_.node(index);
    const auto chain = chain_to(node.inputs[0]);
    if (chain.empty()) return;
    ValueId value = edits_.insert(index, *node.info, node.op, {chain.back().node->inputs[chain.back().input]})[0];
    for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
      ValueIds inputs = link->node->inputs;
      inputs[link->input] = value;
      value = edits_.insert(index, *link->node->info, link->node->op, inputs)[0];
    }
    edits_.replace(node.outputs[0], value);
  }

  const Graph& graph_;
  GraphView view_;
  Edits edits_;
};

}  // namespace

Graph reverse_first(Graph graph) { return prune(Rewriter(graph).run()); }

}  // namespace thalweg
