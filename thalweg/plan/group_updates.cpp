#include "thalweg/plan/group_updates.h"

#include <algorithm>

#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/fused/fused_each.h"
#include "thalweg/ops/registry.h"
#include "thalweg/plan/storage.h"

namespace thalweg {
namespace {

class Grouper {
 public:
  explicit Grouper(Graph graph)
      : graph_(std::move(graph)), storages_(graph_), entry_(graph_.values.size(), none), marks_(graph_.values.size()) {
    for (const auto& variable : graph_.variables) {
      if (variable.update < 0) continue;
      ValueId& entry = entry_[static_cast<std::size_t>(variable.update)];
      entry = entry == none ? variable.entry : several;
    }
  }

  Graph run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      if (!is_update(node)) {
        close();
        graph_.nodes.push_back(std::move(node));
        continue;
      }
      if (!fits(node)) close();
      add(std::move(node));
    }
    close();
    return std::move(graph_);
  }

 private:
  static constexpr ValueId none = -1, several = -2;

  // All it makes is left in variables, and every operand is as long as that or a single element.
  bool is_update(const Node& node) const {
    if (!is_op(node, fused_info())) return false;
    const Shape& shape = graph_.spec(node.outputs[0]).shape;
    const bool updates = std::all_of(node.outputs.begin(), node.outputs.end(),
                                     [&](ValueId output) { return entry_[static_cast<std::size_t>(output)] >= 0; });
    return updates && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
             return graph_.spec(input).size() == 1 || graph_.spec(input).shape == shape;
           });
  }

  // Neither reads what one of the others changes or makes, nor changes what one of them reads: all of them may run at
  // once, each in the place of its variables.
  bool fits(const Node& node) const {
    return std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return mark(input).changed; }) &&
           std::none_of(node.outputs.begin(), node.outputs.end(),
                        [&](ValueId output) { return mark(entry_[static_cast<std::size_t>(output)]).read; });
  }

  bool are_alike(const Node& a, const Node& b) const {
    if (a.layer != b.layer || !same_program(a.op.get(), b.op.get())) return false;
    for (std::size_t i = 0; i < a.inputs.size(); ++i) {
      const Spec &x = graph_.spec(a.inputs[i]), &y = graph_.spec(b.inputs[i]);
      if (x.dtype != y.dtype || is_single(a, x) != is_single(b, y)) return false;
    }
    return true;
  }
  // One element for all of the outputs'. Of an output of one element every operand is as long as it is.
  bool is_single(const Node& node, const Spec& operand) const {
    return operand.shape != graph_.spec(node.outputs[0]).shape;
  }

  void add(Node node) {
    for (ValueId input : node.inputs) mark(input).read = true;
    for (ValueId output : node.outputs)
      mark(output).changed = mark(entry_[static_cast<std::size_t>(output)]).changed = true;
    for (auto& group : open_)
      if (are_alike(group[0], node)) return group.push_back(std::move(node));
    open_.push_back({std::move(node)});
  }

  void close() {
    for (auto& group : open_) {
      for (const Node& node : group) unmark(node);
      if (group.size() == 1) {
        graph_.nodes.push_back(std::move(group[0]));
        continue;
      }
      Node all{&fused_each_info(),
               make_fused_each(group[0].op.get(), static_cast<std::int64_t>(group.size())),
               {},
               {},
               group[0].layer};
      for (const Node& node : group) {
        for (ValueId input : node.inputs) all.inputs.push_back(input);
        for (ValueId output : node.outputs) all.outputs.push_back(output);
      }
      graph_.nodes.push_back(std::move(all));
    }
    open_.clear();
  }

  void unmark(const Node& node) {
    for (ValueId input : node.inputs) mark(input) = {};
    for (ValueId output : node.outputs) mark(output) = mark(entry_[static_cast<std::size_t>(output)]) = {};
  }

  struct Mark {
    bool read = false, changed = false;
  };
  Mark& mark(ValueId value) { return marks_[static_cast<std::size_t>(storages_.root(value))]; }
  const Mark& mark(ValueId value) const { return marks_[static_cast<std::size_t>(storages_.root(value))]; }

  Graph graph_;
  const Storages storages_;
  std::vector<ValueId> entry_;           // by value: the variable that is left with it, none, or several of them
  std::vector<Mark> marks_;              // by root: what the open updates do with it
  std::vector<std::vector<Node>> open_;  // updates that may run at once, those alike together
};

}  // namespace

Graph group_updates(Graph graph) { return Grouper(std::move(graph)).run(); }

}  // namespace thalweg
