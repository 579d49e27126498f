// A large product whose cross-entropy is all that is asked of it, forward and backward, becomes linear_cross_entropy,
// which makes the logits a few rows at a time:
//   %2 = matmul %x %w;  %3 = add %2 %bias;  %4, %5 = sparse_softmax_cross_entropy %labels %3
//   becomes     %4, %5 = linear_cross_entropy %labels %x %w %bias
// and the gradients by x, w and bias become linear_cross_entropy_backward. Logits that are not large stay: keeping them
// is faster. Results differ by rounding.
#include <algorithm>
#include <optional>

#include "thalweg/graph/passes/matching.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

constexpr std::int64_t largest_logits = std::int64_t{64} << 20;  // bytes that are held at once

struct Match {
  Matrix w;  // transposed: stored as [classes, size]
  ValueId x = -1, bias = -1, labels = -1;
  int forward = -1, backward = -1;  // the cross-entropy nodes
  Matrix dx, dw, dbias;             // what to replace
};

class Recogniser {
 public:
  explicit Recogniser(Graph graph) : graph_(std::move(graph)), view_(graph_), edits_(graph_) {}

  Graph run() {
    const Graph& graph = view_.graph();
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (is_op(graph.nodes[i], sparse_softmax_cross_entropy_info()))
        if (const auto match = match_head(static_cast<int>(i))) rewrite(*match);
    return std::move(edits_).apply();
  }

 private:
  const Spec& spec(ValueId value) const { return view_.graph().spec(value); }
  bool is_same(ValueId a, ValueId b) const { return view_.behind_reshapes(a) == view_.behind_reshapes(b); }

  std::optional<Match> match_head(int index) const {
    Match match;
    match.forward = index;
    match.labels = view_.node(index).inputs[0];
    const ValueId logits = view_.node(index).inputs[1];
    if (spec(logits).bytes() <= largest_logits || !match_logits(logits, match)) return std::nullopt;
    for (const Reader& reader : view_.readers(view_.behind_reshapes(logits))) {
      if (reader.node == index) continue;
      if (!is_op(view_.node(reader.node), sparse_softmax_cross_entropy_backward_info()) || match.backward >= 0)
        return std::nullopt;
      match.backward = reader.node;
    }
    if (match.backward >= 0 && !match_backward(match)) return std::nullopt;
    return match;
  }

  // Logits that are x w, or x w + bias, and are read by the cross-entropy alone.
  bool match_logits(ValueId logits, Match& match) const {
    const std::int64_t classes = spec(logits).shape.last();
    ValueId value = view_.behind_reshapes(logits);
    if (view_.readers(value).empty()) return false;
    const Node* node = view_.maker(value);
    if (node && is_op(*node, row_op(Row::add))) {
      const auto is_bias = [&](ValueId operand) { return spec(operand).shape == Shape{classes}; };
      const std::size_t place = is_bias(node->inputs[0]) ? 0 : 1;
      match.bias = node->inputs[place];
      value = view_.behind_reshapes(node->inputs[1 - place]);
      if (!is_bias(match.bias) || view_.readers(value).size() != 1) return false;
      node = view_.maker(value);
    }
    if (!node || !is_op(*node, matmul_info()) || spec(value).shape.last() != classes) return false;
    if (spec(value).size() != spec(logits).size()) return false;  // the bias added rows
    const Product product(*node, 0);
    match.x = node->inputs[0];
    match.w = product.other;
    const DType dtype = spec(value).dtype;
    return !product.transposed && spec(match.w.value).rank() == 2 && (dtype == f32 || dtype == f64);
  }

  bool match_backward(Match& match) const {
    const Node& forward = view_.node(match.forward);
    const Node& backward = view_.node(match.backward);
    if (!is_same(backward.inputs[0], match.labels) || !is_same(backward.inputs[2], forward.outputs[1])) return false;
    const auto readers = view_.readers(backward.outputs[0]);
    return !readers.empty() && match.backward > match.forward &&
           std::all_of(readers.begin(), readers.end(),
                       [&](const Reader& reader) { return match_reader(reader, match); });
  }

  // A reader of the logits' gradient: one of the three gradients behind it.
  bool match_reader(const Reader& reader, Match& match) const {
    const Node& node = view_.node(reader.node);
    const ValueId made = node.outputs[0];
    const auto note = [](Matrix& place, const Matrix& found) {
      const bool is_first = place.value < 0;
      place = found;
      return is_first;
    };
    if (is_op(node, reduce_sum_info())) {
      const std::int64_t last = spec(node.inputs[0]).rank() - 1;
      const auto axes = integers_field(node, "axes");
      return match.bias >= 0 && spec(made).shape == spec(match.bias).shape && !axes.empty() &&
             std::find(axes.begin(), axes.end(), last) == axes.end() && note(match.dbias, {made});
    }
    if (!is_op(node, matmul_info())) return false;
    const Product product(node, reader.input);
    if (product.is_left && !product.transposed)  // dlogits w^T
      return is_same(product.other.value, match.w.value) && product.other.transposed != match.w.transposed &&
             note(match.dx, {made});
    // x^T dlogits [size, classes], or dlogits^T x [classes, size], as wide as x and the logits have rows
    const bool fits = product.is_left ? !product.other.transposed : !product.transposed && product.other.transposed;
    return fits && is_same(product.other.value, match.x) && spec(made).size() == spec(match.w.value).size() &&
           note(match.dw, {made, product.is_left != match.w.transposed});
  }

  void rewrite(const Match& match) {
    const std::int64_t size = spec(match.x).shape.last(), rows = spec(match.x).size() / size;
    const ValueId labels = edits_.reshape(match.forward, match.labels, {rows}),
                  x = edits_.reshape(match.forward, match.x, {rows, size});
    const auto attributes = [&](const OpInfo& info) {
      return make_attributes(info, {{"transpose_w", std::int64_t{match.w.transposed}}});
    };
    const auto operands = [&](ValueIds list) {
      if (match.bias >= 0) list.push_back(match.bias);
      return list;
    };
    const OpInfo &forward = linear_cross_entropy_info(), &backward = linear_cross_entropy_backward_info();
    const ValueIds made =
        edits_.insert(match.forward, forward, attributes(forward), operands({labels, x, match.w.value}));
    edits_.replace(match.forward, Matrix{view_.node(match.forward).outputs[0]}, made[0]);
    if (match.backward < 0) return;
    const ValueId dloss = edits_.reshape(match.backward, view_.node(match.backward).inputs[3], {rows});
    const ValueIds gradients = edits_.insert(match.backward, backward, attributes(backward),
                                             operands({labels, x, match.w.value, made[1], dloss}));
    edits_.replace(match.backward, match.dx, gradients[0]);
    edits_.replace(match.backward, match.dw, gradients[1]);
    if (match.bias >= 0) edits_.replace(match.backward, match.dbias, gradients[2]);
  }

  const Graph graph_;
  GraphView view_;
  Edits edits_;
};

}  // namespace

Graph recognise_head(Graph graph) { return prune(Recogniser(std::move(graph)).run()); }

}  // namespace thalweg
