#include "thalweg/plan/resize_batch.h"

#include <algorithm>

#include "thalweg/core/error.h"
#include "thalweg/graph/rewrite.h"

namespace thalweg {
namespace {

class Resizer {
 public:
  Resizer(const Graph& graph, std::int64_t from, std::int64_t to)
      : graph_(graph), from_(from), to_(to), maker_(producers(graph)), result_(graph), states_(graph.values.size()) {}

  std::optional<Graph> run(const std::vector<int>& batch) {
    for (int argument : batch) set(graph_.arguments[static_cast<std::size_t>(argument)], BatchState::of_rows(0, 1));
    for (has_changed_ = true; has_changed_;) {  // whole values that turn out to be as long as the batch have readers
      has_changed_ = false;
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
        if (!visit(graph_.nodes[i], result_.nodes[i])) return std::nullopt;
    }
    if (!is_consistent()) return std::nullopt;
    return std::move(result_);
  }

 private:
  const BatchState& state(ValueId value) const { return states_[static_cast<std::size_t>(value)]; }

  // A value that has a state keeps it; if another was right, the graph does not hold together in the end.
  void set(ValueId value, const BatchState& state) {
    if (!state.is_rows() || this->state(value).is_rows()) return;
    has_changed_ = true;
    states_[static_cast<std::size_t>(value)] = state;
    Spec& spec = result_.values[static_cast<std::size_t>(value)];
    spec.shape = spec.shape.with(state.axis, state.rows * to_);
  }

  bool visit(const Node& node, Node& resized) {
    BatchStates in;
    bool any_rows = false;
    for (ValueId input : node.inputs) {
      in.push_back(state(input));
      any_rows |= state(input).is_rows();
    }
    return !any_rows || by_rule(node, resized, in) || by_shape(node);
  }

  // A whole value that one node wants cut may be read by others that do not.
  bool is_consistent() const {
    try {
      verify(result_, "resize_batch");
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  // As the op says. Whole inputs that it wants cut (a fill, a constant) are as long as the batch: they are resized too.
  bool by_rule(const Node& node, Node& resized, BatchStates& in) {
    if (!node.info->batch_rule) return false;
    SmallVector<const Spec*, 4> specs;
    const BatchStates out = node.info->batch_rule(node.op.get(), input_specs(graph_, node, specs), in, from_);
    for (const auto& one : out)
      if (one.kind == BatchState::Kind::blocked) return false;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (!state(node.inputs[i]).is_rows()) set_whole(node.inputs[i], in[i]);
    for (std::size_t i = 0; i < out.size(); ++i) set(node.outputs[i], out[i]);
    if (node.info->with_batch && out[0].is_rows()) resized.op = node.info->with_batch(node.op.get(), out[0], to_);
    return true;
  }

  // What makes it (a fill, a broadcast, a calculation with one) is to make as much.
  void set_whole(ValueId value, const BatchState& wanted) {
    if (!wanted.is_rows() || state(value).is_rows()) return;
    set(value, wanted);
    const int maker = maker_[static_cast<std::size_t>(value)];
    if (maker < 0) return;
    Node& node = result_.nodes[static_cast<std::size_t>(maker)];
    if (node.info->with_batch) node.op = node.info->with_batch(node.op.get(), wanted, to_);
    const BatchStates in = inputs_for(graph_.nodes[static_cast<std::size_t>(maker)], value, wanted);
    for (std::size_t i = 0; i < in.size(); ++i) set_whole(node.inputs[i], in[i]);
  }

  // Which inputs the node is to read by rows for its output to be rows like that; none: it makes them by itself.
  BatchStates inputs_for(const Node& node, ValueId output, const BatchState& wanted) const {
    if (!node.info->batch_rule) return {};
    const auto which = static_cast<std::size_t>(std::ranges::find(node.outputs, output) - node.outputs.begin());
    SmallVector<const Spec*, 4> specs;
    const Inputs before = input_specs(graph_, node, specs);
    for (int i = 0; i < before.size(); ++i)
      for (int axis = 0; axis < before[i].rank(); ++axis) {
        const std::int64_t rows = before[i].shape[axis] / from_;
        if (rows == 0 || rows * from_ != before[i].shape[axis]) continue;
        BatchStates in(node.inputs.size());
        in[static_cast<std::size_t>(i)] = BatchState::of_rows(axis, rows);
        if (node.info->batch_rule(node.op.get(), before, in, from_)[which] == wanted) return in;
      }
    return {};
  }

  // Where examples mix (a batch norm): whichever axis of the outputs changes with the inputs' sizes.
  bool by_shape(const Node& node) {
    SmallVector<const Spec*, 4> specs;
    Specs inferred;
    try {
      inferred = node.info->infer(node.op.get(), input_specs(result_, node, specs));
    } catch (const Error&) {
      return false;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Shape &before = graph_.spec(node.outputs[i]).shape, &after = inferred[i].shape;
      if (before.rank() != after.rank()) return false;
      for (int axis = 0; axis < before.rank(); ++axis) {
        if (before[axis] == after[axis]) continue;
        if (before[axis] % from_ != 0 || before[axis] / from_ * to_ != after[axis]) return false;
        set(node.outputs[i], BatchState::of_rows(axis, before[axis] / from_));
      }
    }
    return true;
  }

  const Graph& graph_;
  const std::int64_t from_, to_;
  const std::vector<int> maker_;
  Graph result_;
  std::vector<BatchState> states_;
  bool has_changed_ = false;
};

}  // namespace

std::optional<Graph> resize_batch(const Graph& graph, const std::vector<int>& batch, std::int64_t examples) {
  if (batch.empty()) return std::nullopt;
  const std::int64_t from = graph.spec(graph.arguments[static_cast<std::size_t>(batch[0])]).shape[0];
  if (from == 0) return std::nullopt;
  return Resizer(graph, from, examples).run(batch);
}

}  // namespace thalweg
