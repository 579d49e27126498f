// The largest of some relus is the relu of the largest, and there are fewer of them:
//   %1 = relu %0;  %2 = max_pool %1     becomes     %3 = max_pool %0;  %2 = relu %3
// and of the gradients
//   %4 = max_pool_backward %1 %dy;  %5 = where(%1 > 0, %4, 0)
//   becomes     %6 = where(%2 > 0, %dy, 0);  %5 = max_pool_backward %0 %6
// with the same bits: a window without a positive element passes nothing on, any other one to the same element.
// Likewise with a bias %b of the channels, where the step is computed in 16 bits:
//   %1 = add %0 %b;  %2 = max_pool %1     becomes     %3 = max_pool %0;  %2 = add %3 %b
//   %4 = max_pool_backward %1 %dy;  %5 = reduce_sum %4     becomes     %4 = max_pool_backward %0 %dy;  %5 = reduce_sum
//   %dy
// Elements that the rounding of the sum makes equal stay apart, so that of those the larger one gets the gradient
// instead of the first; f32 steps keep every bit of eager ones.
#include <algorithm>
#include <numeric>
#include <optional>

#include "thalweg/graph/passes/matching.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

class Rewriter {
 public:
  explicit Rewriter(Graph graph) : graph_(std::move(graph)), view_(graph_), edits_(graph_) {}

  Graph take_relus_last() {
    return rewrite(Row::relu, [&](const Node& relu) { swap_relu(relu); });
  }
  Graph add_biases_last() {
    return rewrite(Row::add, [&](const Node& sum) { swap_bias(sum); });
  }

 private:
  template <class Swap>
  Graph rewrite(Row row, Swap swap) {
    const auto count = static_cast<int>(view_.graph().nodes.size());
    for (int i = 0; i < count; ++i)
      if (is_op(view_.node(i), row_op(row))) swap(view_.node(i));
    return prune(std::move(edits_).apply());
  }

  // Who reads a value, as first input: -1 for nobody.
  struct Readers {
    int pool = -1, pool_back = -1, other = -1;
  };

  // None: there is no pool, or there are several readers of a kind.
  std::optional<Readers> readers_of(ValueId y) const {
    Readers found;
    for (const Reader& reader : view_.readers(y)) {
      const Node& node = view_.node(reader.node);
      int& role = is_op(node, max_pool_info())            ? found.pool
                  : is_op(node, max_pool_backward_info()) ? found.pool_back
                                                          : found.other;
      if (role >= 0 || reader.input != 0 || node.inputs[0] != y) return std::nullopt;
      role = reader.node;
    }
    return found.pool < 0 ? std::nullopt : std::optional(found);
  }

  void swap_relu(const Node& relu) {
    const ValueId x = relu.inputs[0], y = relu.outputs[0];
    const auto readers = readers_of(y);
    if (!readers || (readers->pool_back < 0) != (readers->other < 0)) return;
    const int pool = readers->pool, pool_back = readers->pool_back;
    if (pool_back >= 0 && !are_gradients(view_.node(pool), view_.node(pool_back), view_.node(readers->other))) return;
    const ValueId largest = edits_.insert(pool, max_pool_info(), view_.node(pool).op, {x})[0];
    const ValueId result = edits_.insert(pool, *relu.info, relu.op, {largest})[0];
    edits_.replace(view_.node(pool).outputs[0], result);
    if (pool_back < 0) return;
    const Node &inner = view_.node(pool_back), &outer = view_.node(readers->other);
    const ValueId passed = edits_.insert(pool_back, *outer.info, outer.op, {result, inner.inputs[1]})[0];
    edits_.replace(outer.outputs[0], edits_.insert(pool_back, *inner.info, inner.op, {x, passed})[0]);
  }

  // Whether the gradient of this pool, and not of one with other windows whose result nobody wants, is that of the
  // relu.
  bool are_gradients(const Node& pool, const Node& inner, const Node& outer) const {
    const auto windows = [](const Node& node) { return fields::key(node.info->visit, node.op.get()); };
    return windows(pool) == windows(inner) && is_relu_gradient(outer) && outer.inputs[1] == inner.outputs[0] &&
           view_.has_one_reader(inner.outputs[0]);
  }

  void swap_bias(const Node& sum) {
    const ValueId x = sum.inputs[0], bias = sum.inputs[1], y = sum.outputs[0];
    const Shape& shape = graph_.spec(y).shape;
    if (shape.rank() == 0 || graph_.spec(x).shape != shape || graph_.spec(bias).shape != Shape{shape.last()}) return;
    const auto readers = readers_of(y);
    if (!readers || readers->other >= 0) return;
    const Node& pool = view_.node(readers->pool);
    const ValueId largest = edits_.insert(readers->pool, *pool.info, pool.op, {x})[0];
    edits_.replace(pool.outputs[0], edits_.insert(readers->pool, *sum.info, sum.op, {largest, bias})[0]);
    if (readers->pool_back >= 0) swap_bias_gradient(readers->pool_back, x);
  }

  // Every gradient goes to one element: their sum is the same on both sides of the pool.
  void swap_bias_gradient(int pool_back, ValueId x) {
    const Node& back = view_.node(pool_back);
    const ValueId dy = back.inputs[1], dx = back.outputs[0];
    std::vector<std::int64_t> all_but_last(static_cast<std::size_t>(graph_.spec(dx).rank()) - 1);
    std::iota(all_but_last.begin(), all_but_last.end(), 0);
    for (const Reader& reader : view_.readers(dx)) {
      const Node& node = view_.node(reader.node);
      if (is_op(node, reduce_sum_info()) && node.inputs[0] == dx && integers_field(node, "axes") == all_but_last)
        edits_.replace(node.outputs[0], edits_.insert(reader.node, *node.info, node.op, {dy})[0]);
    }
    edits_.replace(dx, edits_.insert(pool_back, *back.info, back.op, {x, dy})[0]);
  }

  const Graph graph_;
  GraphView view_;
  Edits edits_;
};

}  // namespace

Graph pool_first(Graph graph) {
  graph = Rewriter(std::move(graph)).take_relus_last();
  return graph.precision == Precision::f32 ? graph : Rewriter(std::move(graph)).add_biases_last();
}

}  // namespace thalweg
