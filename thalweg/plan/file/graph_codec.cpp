#include "thalweg/plan/file/graph_codec.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/crc32c.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/ops/registry.h"
#include "thalweg/plan/file/fields_codec.h"
#include "thalweg/plan/file/node_rules.h"

namespace thalweg {
namespace {

// The fewest bytes that an entry of a list takes, so that a count can be checked before room is made for it.
constexpr std::size_t smallest_spec = 2, smallest_variable = 12, smallest_constant = 8, smallest_node = 20;

constexpr std::int64_t largest_beside_zero = std::int64_t{1} << 24;

void check_writable(const Graph& graph) {
  TW_CHECK(unimplemented, graph.host_numbers.empty(), "save",
           "use a schedule of tw::schedules, or keep the number in a variable",
           "function \"{}\" reads {} numbers that host code computes before each call, which a file cannot hold",
           graph.name, graph.host_numbers.size());
  TW_CHECK_INTERNAL(graph.carries.empty(), "save", "function \"{}\" carries values from turn to turn", graph.name);
  for (const auto& node : graph.nodes)
    TW_CHECK(unimplemented, has_file_rule(*node.info), "save",
             "tw::where does for a branch, a loop of the host for a loop",
             "function \"{}\" has a node \"{}\"{}, which a file cannot hold", graph.name, node.info->name,
             node.layer == 0 ? "" : fmt::format(" in layer \"{}\"", path_of(node.layer)));
}

void write_node(ByteWriter& out, const Node& node) {
  out.text(node.info->name);
  out.text(write_fields(*node.info, node.op.get()));
  out.numbers<ValueId>(node.inputs);
  out.numbers<ValueId>(node.outputs);
  out.text(path_of(node.layer));
}

Node read_node(ByteReader& in) {
  Node node;
  const std::string_view name = in.text();
  node.info = find_op(name);
  if (!node.info || !has_file_rule(*node.info)) throw_damaged(fmt::format("expected an op, got {}", in_quotes(name)));
  node.op = read_fields(*node.info, in.text());
  node.inputs = in.numbers<ValueId>();
  node.outputs = in.numbers<ValueId>();
  node.layer = layer_of(std::string(in.text()));
  return node;
}

void read_variables(ByteReader& in, std::span<const Variable> variables, Graph& graph) {
  std::vector<bool> bound(variables.size(), false);
  for (std::size_t n = in.count(smallest_variable); n > 0; --n) {
    const auto place = in.number<std::uint32_t>();
    if (place >= variables.size() || bound[place])
      throw_damaged(fmt::format("expected each of {} variables once, got variable {}", variables.size(), place));
    bound[place] = true;
    const auto entry = in.number<ValueId>(), update = in.number<ValueId>();
    graph.variables.push_back({variables[place], entry, update});
  }
}

// Beyond what verify looks at: every value is made, and what comes from outside has the spec that it is used with.
void check_entries(const Graph& graph) {
  std::size_t made = graph.arguments.size() + graph.variables.size() + graph.constants.size();
  if (graph.random_state >= 0) ++made;
  for (const auto& node : graph.nodes) made += node.outputs.size();
  if (made != graph.values.size())
    throw_damaged(fmt::format("expected {} values, got {} that are made", graph.values.size(), made));
  for (const auto& variable : graph.variables)
    if (graph.spec(variable.entry) != variable.variable.spec() || variable.update < -1)
      throw_damaged(fmt::format("variable {} is used as something else", in_quotes(variable.variable.name())));
  if (graph.random_state < -1 ||
      (graph.random_state >= 0 && graph.spec(graph.random_state) != Spec{i64, {random::state_size}}))
    throw_damaged("the random state is used as something else");
}

const Spec& spec_at(const Graph& graph, ValueId value) {
  if (value < 0 || value >= static_cast<ValueId>(graph.values.size()))
    throw_damaged(fmt::format("expected one of {} values, got value {}", graph.values.size(), value));
  return graph.spec(value);
}

}  // namespace

void write_spec(ByteWriter& out, const Spec& spec) {
  out.number(static_cast<std::uint8_t>(spec.dtype));
  out.number(static_cast<std::uint8_t>(spec.rank()));
  for (std::int64_t size : spec.shape) out.number(size);
}

Spec read_spec(ByteReader& in) {
  const auto dtype = in.number<std::uint8_t>(), rank = in.number<std::uint8_t>();
  if (dtype >= std::size(all_dtypes) || rank > max_rank)
    throw_damaged(fmt::format("expected a dtype and a rank, got {} and {}", dtype, rank));
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < rank; ++i) sizes.push_back(in.number<std::int64_t>());
  const Shape shape(sizes);
  // An empty tensor costs no memory, but ops may make tables along its other axes.
  if (shape.size() == 0 &&
      std::any_of(sizes.begin(), sizes.end(), [](auto size) { return size > largest_beside_zero; }))
    throw_damaged(fmt::format("expected an empty tensor of a usual shape, got {}", shape));
  return {static_cast<DType>(dtype), shape};
}

void write_tensor(ByteWriter& out, const Tensor& tensor, std::vector<Tensor>& data) {
  out.number(crc32c(tensor.impl().data, static_cast<std::size_t>(tensor.bytes())));
  data.push_back(tensor);
}

void write_graph(ByteWriter& out, const SavedGraph& saved, const VariablePlaces& variables, std::vector<Tensor>& data) {
  const Graph& graph = saved.graph;
  check_writable(graph);
  out.text(graph.name);
  out.flag(saved.scopes.training);
  out.count(graph.values.size());
  for (const auto& spec : graph.values) write_spec(out, spec);
  out.numbers<ValueId>(graph.arguments);
  out.numbers<int>(saved.argument_sizes);
  out.numbers<ValueId>(graph.results);
  out.numbers<int>(saved.result_sizes);
  out.count(graph.variables.size());
  for (const auto& variable : graph.variables) {
    out.number(variables.at(variable.variable.id()));
    out.number(variable.entry);
    out.number(variable.update);
  }
  out.count(graph.constants.size());
  for (const auto& constant : graph.constants) {
    out.number(constant.value);
    write_tensor(out, constant.tensor, data);
  }
  out.number(graph.random_state);
  out.count(graph.nodes.size());
  for (const auto& node : graph.nodes) write_node(out, node);
}

SavedGraph read_graph(ByteReader& in, std::span<const Variable> variables, Container& data) {
  SavedGraph saved;
  Graph& graph = saved.graph;
  graph.name = in.text();
  saved.scopes.training = in.flag();
  for (std::size_t n = in.count(smallest_spec); n > 0; --n) graph.values.push_back(read_spec(in));
  graph.arguments = in.numbers<ValueId>();
  saved.argument_sizes = in.numbers<int>();
  graph.results = in.numbers<ValueId>();
  saved.result_sizes = in.numbers<int>();
  read_variables(in, variables, graph);
  for (std::size_t n = in.count(smallest_constant); n > 0; --n) {
    const auto value = in.number<ValueId>();
    graph.constants.push_back({value, data.read(spec_at(graph, value), in.number<std::uint32_t>())});
  }
  graph.random_state = in.number<ValueId>();
  for (std::size_t n = in.count(smallest_node); n > 0; --n) graph.nodes.push_back(read_node(in));
  for (const auto& node : graph.nodes) {
    for (ValueId input : node.inputs) spec_at(graph, input);
    check_file_rule(graph, node);
  }
  verify(graph, "reading");
  check_entries(graph);
  return saved;
}

}  // namespace thalweg
