// The relu of a batch norm that nobody else reads is taken as the norm is computed:
//   %y %mean %variance %rstd = batch_norm %x %scale %offset;  %z = relu %y
//   becomes     %z %mean %variance %rstd = batch_norm_relu %x %scale %offset
// likewise with a residual that is there before the norm
//   …;  %sum = add %r %y;  %z = relu %sum     becomes     %z … = batch_norm_relu %x %scale %offset %r
// and of the gradients, where there is no residual to share them
//   %dy = where(%z > 0, %dz, 0);  %dx %dscale %doffset = batch_norm_backward %x %scale %mean %rstd %dy
//   becomes     %dx %dscale %doffset = batch_norm_relu_backward %x %scale %offset %mean %rstd %dz
// with the same bits. In steps of 16 bits casts to f32 and back stand around relus, sums and gradients.
#include <map>

#include "thalweg/graph/passes/matching.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

class Rewriter {
 public:
  explicit Rewriter(Graph graph) : graph_(std::move(graph)), view_(graph_), edits_(graph_) {}

  Graph run() {
    const auto count = static_cast<int>(graph_.nodes.size());
    for (int i = 0; i < count; ++i) {
      if (is_op(view_.node(i), batch_norm_info())) activate(i);
      if (is_op(view_.node(i), batch_norm_backward_info())) join_gradient(i);
    }
    return edits_.empty() ? graph_ : prune(std::move(edits_).apply());
  }

 private:
  DType dtype(ValueId value) const { return graph_.spec(value).dtype; }

  // The value that this one becomes in the dtype, by a cast that alone reads it, or the value itself; -1: none.
  ValueId cast_to(DType to, ValueId value) const {
    if (dtype(value) == to) return value;
    const Node* reader = view_.only_reader(value);
    return reader && is_op(*reader, cast_info()) && dtype(reader->outputs[0]) == to ? reader->outputs[0] : -1;
  }
  // The value of the dtype that this one is a cast of, or the value itself; -1: none.
  ValueId cast_from(DType from, ValueId value) const {
    if (dtype(value) == from) return value;
    const Node* maker = view_.maker(value);
    return maker && is_op(*maker, cast_info()) && dtype(maker->inputs[0]) == from ? maker->inputs[0] : -1;
  }

  void activate(int index) {
    const Node& norm = view_.node(index);
    const DType stored = dtype(norm.outputs[0]);
    const ValueId y = cast_to(wide(stored), norm.outputs[0]);
    const Node* next = y < 0 ? nullptr : view_.only_reader(y);
    ValueIds inputs = norm.inputs;
    if (next && is_op(*next, row_op(Row::add))) {
      const ValueId residual = cast_from(stored, next->inputs[next->inputs[0] == y ? 1 : 0]);
      if (!is_residual(residual, index)) return;
      inputs.push_back(residual);
      next = view_.only_reader(next->outputs[0]);
    }
    if (!next || !is_op(*next, row_op(Row::relu))) return;
    const ValueId z = cast_to(stored, next->outputs[0]);
    if (z < 0) return;
    const OpInfo& info = batch_norm_relu_info();
    const ValueIds made = edits_.insert(index, info, attributes(info, norm), inputs);
    edits_.replace(z, made[0]);
    for (std::size_t i = 1; i < made.size(); ++i) edits_.replace(norm.outputs[i], made[i]);
    if (inputs.size() == norm.inputs.size()) relus_[index] = z;
  }

  bool is_residual(ValueId value, int norm) const {
    return value >= 0 && graph_.spec(value) == graph_.spec(view_.node(norm).outputs[0]) &&
           view_.maker_index(value) < norm;
  }

  void join_gradient(int index) {
    const Node& gradient = view_.node(index);
    const auto found = relus_.find(view_.maker_index(gradient.inputs[2]));
    if (found == relus_.end()) return;
    const Node& norm = view_.node(found->first);
    const ValueId dy = gradient.inputs[4];
    if (gradient.inputs != ValueIds{norm.inputs[0], norm.inputs[1], norm.outputs[1], norm.outputs[3], dy}) return;
    const ValueId dz = gradient_of_relu(index, found->second, dy);
    if (dz < 0) return;
    const OpInfo& info = batch_norm_relu_backward_info();
    const ValueIds made =
        edits_.insert(index, info, attributes(info, norm),
                      {norm.inputs[0], norm.inputs[1], norm.inputs[2], norm.outputs[1], norm.outputs[3], dz});
    for (std::size_t i = 0; i < made.size(); ++i) edits_.replace(gradient.outputs[i], made[i]);
  }

  // dz, as it is stored, where dy = where(z > 0, dz, 0), read by node `index` alone; -1: it is something else.
  ValueId gradient_of_relu(int index, ValueId z, ValueId dy) {
    const DType stored = dtype(z);
    const ValueId masked = cast_from(wide(stored), dy);
    if (masked < 0 || !view_.has_one_reader(dy) || !view_.has_one_reader(masked)) return -1;
    const Node* relu = view_.maker(masked);
    if (!relu || !is_relu_gradient(*relu) || cast_from(stored, relu->inputs[0]) != z) return -1;
    const ValueId dz = relu->inputs[1];
    if (graph_.spec(dz).shape != graph_.spec(z).shape) return -1;
    if (const ValueId made_from = cast_from(stored, dz); made_from >= 0) return made_from;
    const auto op = make_attributes(cast_info(), {{"dtype", static_cast<std::int64_t>(stored)}});
    return edits_.insert(index, cast_info(), op, {dz})[0];
  }

  static std::shared_ptr<const void> attributes(const OpInfo& info, const Node& norm) {
    return make_attributes(info, {{"epsilon", real_field(norm, "epsilon")}});
  }

  const Graph graph_;
  GraphView view_;
  Edits edits_;
  std::map<int, ValueId> relus_;  // of norms, by their nodes, without a residual
};

}  // namespace

Graph relu_batch_norms(Graph graph) { return Rewriter(std::move(graph)).run(); }

}  // namespace thalweg
