// The largest of some relus is the relu of the largest, and there are fewer of them:
//   %1 = relu %0;  %2 = max_pool %1     becomes     %3 = max_pool %0;  %2 = relu %3
// and of the gradients
//   %4 = max_pool_backward %1 %dy;  %5 = where(%1 > 0, %4, 0)
//   becomes     %6 = where(%2 > 0, %dy, 0);  %5 = max_pool_backward %0 %6
// with the same bits: a window without a positive element passes nothing on, any other one to the same element.
#include <algorithm>

#include "thalweg/graph/passes/matching.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

// where(y > 0, dy, 0)
bool is_relu_gradient(const Node& node) {
  if (!is_op(node, fused_info())) return false;
  const Program& program = program_of(node.op.get());
  const std::vector<Instruction> expected{{Row::greater, {0, 2, -1}}, {Row::where, {3, 1, 2}}};
  return program.inputs == 2 && program.constants == std::vector<double>{0} && program.instructions == expected &&
         program.outputs == std::vector<int>{4};
}

class Rewriter {
 public:
  explicit Rewriter(Graph graph) : graph_(std::move(graph)), view_(graph_), edits_(graph_) {}

  Graph run() {
    const auto count = static_cast<int>(view_.graph().nodes.size());
    for (int i = 0; i < count; ++i)
      if (is_op(view_.node(i), row_op(Row::relu))) swap(view_.node(i));
    return prune(std::move(edits_).apply());
  }

 private:
  void swap(const Node& relu) {
    const ValueId x = relu.inputs[0], y = relu.outputs[0];
    int pool = -1, pool_back = -1, relu_back = -1;
    for (const Reader& reader : view_.readers(y)) {
      const Node& node = view_.node(reader.node);
      int& role = is_op(node, max_pool_info()) ? pool : is_op(node, max_pool_backward_info()) ? pool_back : relu_back;
      if (role >= 0 || reader.input != 0 || node.inputs[0] != y) return;
      role = reader.node;
    }
    if (pool < 0 || (pool_back < 0) != (relu_back < 0)) return;
    if (pool_back >= 0 && !are_gradients(view_.node(pool_back), view_.node(relu_back))) return;
    const ValueId largest = edits_.insert(pool, max_pool_info(), view_.node(pool).op, {x})[0];
    const ValueId result = edits_.insert(pool, *relu.info, relu.op, {largest})[0];
    edits_.replace(view_.node(pool).outputs[0], result);
    if (pool_back < 0) return;
    const Node &inner = view_.node(pool_back), &outer = view_.node(relu_back);
    const ValueId passed = edits_.insert(pool_back, *outer.info, outer.op, {result, inner.inputs[1]})[0];
    edits_.replace(outer.outputs[0], edits_.insert(pool_back, *inner.info, inner.op, {x, passed})[0]);
  }

  bool are_gradients(const Node& inner, const Node& outer) const {
    return is_relu_gradient(outer) && outer.inputs[1] == inner.outputs[0] && view_.has_one_reader(inner.outputs[0]);
  }

  const Graph graph_;
  GraphView view_;
  Edits edits_;
};

}  // namespace

Graph pool_first(Graph graph) { return Rewriter(std::move(graph)).run(); }

}  // namespace thalweg
