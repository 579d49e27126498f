#include "thalweg/plan/file/content_codec.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/plan/file/fields_codec.h"
#include "thalweg/plan/file/node_rules.h"
#include "thalweg/plan/file/tensor_codec.h"

namespace thalweg {
namespace {

// The fewest bytes that an entry of a list takes, so that a count can be checked before room is made for it.
constexpr std::size_t smallest_spec = 2, smallest_constant = 8, smallest_node = 20;

constexpr std::int64_t largest_content = std::int64_t{1} << 54;  // bytes of all values: sums of them do not overflow

void write_node(ByteWriter& out, const Node& node, const BodyTable& table) {
  Node plain = node;
  std::vector<std::uint32_t> places;
  if (is_control(*node.info)) {
    const Bodies bodies = bodies_of(node);
    for (const auto& body : bodies) places.push_back(table.place(body));
    plain.op = with_bodies(node, Bodies(bodies.size()));
  }
  out.text(node.info->name);
  out.text(write_fields(*node.info, plain.op.get()));
  out.numbers<ValueId>(node.inputs);
  out.numbers<ValueId>(node.outputs);
  out.text(path_of(node.layer));
  if (is_control(*node.info)) out.numbers<std::uint32_t>(places);
}

Bodies read_held(ByteReader& in, const Node& node, const BodyTable& table) {
  Bodies bodies;
  for (std::uint32_t place : in.numbers<std::uint32_t>()) {
    if (place >= table.bodies().size())
      throw_damaged(fmt::format("expected one of {} bodies, got body {}", table.bodies().size(), place));
    bodies.push_back(table.bodies()[place]);
  }
  if (bodies.size() != bodies_of(node).size())
    throw_damaged(fmt::format("{} has {} bodies", node.info->name, bodies.size()));
  return bodies;
}

Node read_node(ByteReader& in, const BodyTable& table) {
  Node node;
  const std::string_view name = in.text();
  node.info = find_file_op(name);
  if (!node.info) throw_damaged(fmt::format("expected an op, got {}", in_quotes(name)));
  node.op = read_fields(*node.info, in.text());
  node.inputs = in.numbers<ValueId>();
  node.outputs = in.numbers<ValueId>();
  node.layer = layer_of(std::string(in.text()));
  if (is_control(*node.info)) node.op = with_bodies(node, read_held(in, node, table));
  return node;
}

void read_values(ByteReader& in, Graph& graph) {
  std::int64_t bytes = 0;
  for (std::size_t n = in.count(smallest_spec); n > 0; --n) {
    graph.values.push_back(read_spec(in));
    const std::int64_t more = graph.values.back().bytes();
    if (more > largest_content - bytes)
      throw_damaged(fmt::format("expected values of a usual size, got {}", graph.values.back().shape));
    bytes += more;
  }
}

const Spec& spec_at(const Graph& graph, ValueId value) {
  if (value < 0 || value >= static_cast<ValueId>(graph.values.size()))
    throw_damaged(fmt::format("expected one of {} values, got value {}", graph.values.size(), value));
  return graph.spec(value);
}

// Beyond what verify looks at: every value is made.
void check_made(const Graph& graph) {
  std::size_t made = graph.arguments.size() + graph.variables.size() + graph.constants.size();
  if (graph.random_state >= 0) ++made;
  for (const auto& node : graph.nodes) made += node.outputs.size();
  if (made != graph.values.size())
    throw_damaged(fmt::format("expected {} values, got {} that are made", graph.values.size(), made));
}

}  // namespace

void BodyTable::add(BodyPointer body) {
  int inside = 0;
  for (const auto& node : body->graph().nodes)
    if (is_control(*node.info))
      for (const auto& inner : bodies_of(node)) inside = std::max(inside, depth(inner));
  entries_.emplace(body.get(), Entry{static_cast<std::uint32_t>(bodies_.size()), inside + 1});
  bodies_.push_back(std::move(body));
}

void write_content(ByteWriter& out, const Graph& graph, const BodyTable& table, std::vector<Tensor>& data) {
  out.text(graph.name);
  out.count(graph.values.size());
  for (const auto& spec : graph.values) write_spec(out, spec);
  out.numbers<ValueId>(graph.arguments);
  out.numbers<ValueId>(graph.results);
  out.count(graph.constants.size());
  for (const auto& constant : graph.constants) {
    out.number(constant.value);
    write_tensor(out, constant.tensor, data);
  }
  out.count(graph.nodes.size());
  for (const auto& node : graph.nodes) write_node(out, node, table);
}

void read_content(ByteReader& in, Graph& graph, const BodyTable& table, Container& data) {
  graph.name = in.text();
  read_values(in, graph);
  graph.arguments = in.numbers<ValueId>();
  graph.results = in.numbers<ValueId>();
  for (std::size_t n = in.count(smallest_constant); n > 0; --n) {
    const auto value = in.number<ValueId>();
    graph.constants.push_back({value, data.read(spec_at(graph, value), in.number<std::uint32_t>())});
  }
  for (std::size_t n = in.count(smallest_node); n > 0; --n) graph.nodes.push_back(read_node(in, table));
  for (const auto& node : graph.nodes) {
    for (ValueId input : node.inputs) spec_at(graph, input);
    check_file_rule(graph, node);
  }
  verify(graph, "reading");
  check_made(graph);
}

}  // namespace thalweg
