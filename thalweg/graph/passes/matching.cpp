#include "thalweg/graph/passes/matching.h"

#include <algorithm>

#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {

GraphView::GraphView(const Graph& graph)
    : graph_(graph), makers_(producers(graph)), readers_(graph.values.size()), kept_(graph.values.size(), false) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (std::size_t k = 0; k < graph.nodes[i].inputs.size(); ++k)
      readers_[static_cast<std::size_t>(graph.nodes[i].inputs[k])].push_back(
          {static_cast<int>(i), static_cast<int>(k)});
  for (ValueId value : kept_values(graph)) kept_[static_cast<std::size_t>(value)] = true;
}

const Node* GraphView::maker(ValueId value) const {
  const int index = maker_index(value);
  return index < 0 ? nullptr : &node(index);
}

ValueId GraphView::behind_reshapes(ValueId value) const {
  while (const Node* before = maker(value)) {
    if (!is_op(*before, reshape_info())) break;
    value = before->inputs[0];
  }
  return value;
}

bool GraphView::collect(ValueId value, std::vector<Reader>& found) const {
  if (kept_[static_cast<std::size_t>(value)]) return false;
  for (const Reader& reader : readers_[static_cast<std::size_t>(value)]) {
    if (!is_op(node(reader.node), reshape_info()))
      found.push_back(reader);
    else if (!collect(node(reader.node).outputs[0], found))
      return false;
  }
  return true;
}

std::vector<Reader> GraphView::readers(ValueId value) const {
  std::vector<Reader> found;
  if (!collect(value, found)) found.clear();
  return found;
}

bool GraphView::has_one_reader(ValueId value) const {
  return !kept_[static_cast<std::size_t>(value)] && readers_[static_cast<std::size_t>(value)].size() == 1;
}

const Node* GraphView::only_reader(ValueId value) const {
  return has_one_reader(value) ? &node(readers_[static_cast<std::size_t>(value)][0].node) : nullptr;
}

bool is_relu_gradient(const Node& node) {
  if (!is_op(node, fused_info())) return false;
  const Program& program = program_of(node.op.get());
  const std::vector<Instruction> expected{{Row::greater, {0, 2, -1}}, {Row::where, {3, 1, 2}}};
  return program.inputs == 2 && program.constants == std::vector<double>{0} && program.instructions == expected &&
         program.outputs == std::vector<int>{4};
}

Product::Product(const Node& node, int input) : is_left(input == 0) {
  const bool flags[] = {integer_field(node, "transpose_a") != 0, integer_field(node, "transpose_b") != 0};
  transposed = flags[input];
  other = {node.inputs[static_cast<std::size_t>(1 - input)], flags[1 - input]};
}

ValueIds Edits::insert(int before, const OpInfo& info, std::shared_ptr<const void> op, ValueIds inputs) {
  Node node{&info, std::move(op), std::move(inputs), {}, graph_.nodes[static_cast<std::size_t>(before)].layer};
  SmallVector<const Spec*, 4> specs;
  const Specs outputs = info.infer(node.op.get(), input_specs(graph_, node, specs));
  for (const auto& spec : outputs) node.outputs.push_back(graph_.add_value(spec));
  ValueIds result = node.outputs;
  insertions_.push_back({before, std::move(node)});
  return result;
}

ValueId Edits::reshape(int before, ValueId value, const Shape& shape) {
  if (spec(value).shape == shape) return value;
  return insert(before, reshape_info(), make_attributes(reshape_info(), {{"shape", shape}}), {value})[0];
}

ValueId Edits::swap_last_two(int before, ValueId value) {
  std::vector<std::int64_t> perm;
  for (int i = 0; i < spec(value).rank(); ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return insert(before, transpose_info(), make_attributes(transpose_info(), {{"perm", perm}}), {value})[0];
}

void Edits::replace(int before, const Matrix& old, ValueId by) {
  if (old.value < 0) return;
  if (old.transposed) by = swap_last_two(before, by);
  const Shape wanted = spec(old.value).shape;
  replace(old.value, reshape(before, by, wanted));
}

Graph Edits::apply() && {
  std::stable_sort(insertions_.begin(), insertions_.end(),
                   [](const Insertion& a, const Insertion& b) { return a.before < b.before; });
  std::vector<Node> nodes;
  auto next = insertions_.begin();
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    for (; next != insertions_.end() && next->before == static_cast<int>(i); ++next)
      nodes.push_back(std::move(next->node));
    nodes.push_back(std::move(graph_.nodes[i]));
  }
  graph_.nodes = std::move(nodes);
  Replacements replacements(graph_.values.size());
  for (const auto& [value, by] : replaced_) replacements.set(value, by);
  replacements.apply(graph_);
  return std::move(graph_);
}

}  // namespace thalweg
