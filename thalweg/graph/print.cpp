#include "thalweg/core/check.h"
#include "thalweg/graph/graph.h"

namespace thalweg {
namespace {

std::string typed(const Graph& graph, ValueId value) {
  return fmt::format("%{} {} {}", value, graph.spec(value).dtype, graph.spec(value).shape);
}

template <class List>
std::string joined(const List& list, const char* between, const std::function<std::string(ValueId)>& text) {
  std::string all;
  for (ValueId value : list) all += (all.empty() ? "" : between) + text(value);
  return all;
}

std::string print_node(const Graph& graph, const Node& node) {
  std::string line = joined(node.outputs, ", ", [&](ValueId value) { return typed(graph, value); });
  line += fmt::format(" = {}", node.info->name);
  for (ValueId input : node.inputs) line += fmt::format(" %{}", input);
  const std::string attributes = fields::print(node.info->visit, node.op.get());
  if (!attributes.empty()) line += " {" + attributes + "}";
  if (node.layer != 0) line += "  @" + path_of(node.layer);
  return line;
}

}  // namespace

std::string print(const Graph& graph) {
  const auto named = [&](ValueId value) { return typed(graph, value); };
  std::string text = fmt::format("function \"{}\" ({})", graph.name, joined(graph.arguments, ", ", named));
  text += graph.precision == Precision::f32 ? "\n" : fmt::format(" in {}\n", dtype_of(graph.precision));
  for (const auto& carry : graph.carries)
    text += fmt::format("carry {} -> %{}\n", typed(graph, carry.entry), carry.update);
  for (const auto& variable : graph.variables)
    text += fmt::format("variable {} {}{}\n", variable.variable.name(), typed(graph, variable.entry),
                        variable.update >= 0 ? fmt::format(" -> %{}", variable.update) : "");
  for (const auto& [value, tensor] : graph.constants)
    text += fmt::format("constant %{} {}\n", value, to_string(tensor));
  for (const auto& number : graph.host_numbers) text += fmt::format("host {}\n", typed(graph, number.value));
  if (graph.random_state >= 0) text += fmt::format("random {}\n", typed(graph, graph.random_state));
  for (const auto& node : graph.nodes) text += print_node(graph, node) + "\n";
  return text + fmt::format("return {}\n",
                            joined(graph.results, ", ", [](ValueId value) { return fmt::format("%{}", value); }));
}

}  // namespace thalweg
