#include "thalweg/plan/file/graph_codec.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/plan/file/body_codec.h"

namespace thalweg {
namespace {

constexpr std::size_t smallest_variable = 12;

void check_writable(const Graph& graph) {
  TW_CHECK(unimplemented, graph.host_numbers.empty(), "save",
           "use a schedule of tw::schedules, or keep the number in a variable",
           "function \"{}\" reads {} numbers that host code computes before each call, which a file cannot hold",
           graph.name, graph.host_numbers.size());
  TW_CHECK_INTERNAL(graph.carries.empty(), "save", "function \"{}\" carries values from turn to turn", graph.name);
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

// What comes from outside has the spec that it is used with.
void check_entries(const Graph& graph) {
  for (const auto& variable : graph.variables)
    if (graph.spec(variable.entry) != variable.variable.spec() || variable.update < -1)
      throw_damaged(fmt::format("variable {} is used as something else", in_quotes(variable.variable.name())));
  if (graph.random_state < -1 ||
      (graph.random_state >= 0 && graph.spec(graph.random_state) != Spec{i64, {random::state_size}}))
    throw_damaged("the random state is used as something else");
}

}  // namespace

void write_graph(ByteWriter& out, const SavedGraph& saved, const VariablePlaces& variables, std::vector<Tensor>& data) {
  const Graph& graph = saved.graph;
  check_writable(graph);
  const BodyTable bodies = collect_bodies(graph);
  out.flag(saved.scopes.training);
  out.numbers<int>(saved.argument_sizes);
  out.numbers<int>(saved.result_sizes);
  out.flag(saved.with_mask);
  out.flag(saved.has_custom_gradient);
  out.count(graph.variables.size());
  for (const auto& variable : graph.variables) {
    out.number(variables.at(variable.variable.id()));
    out.number(variable.entry);
    out.number(variable.update);
  }
  out.number(graph.random_state);
  write_bodies(out, bodies, data);
  write_content(out, graph, bodies, data);
}

SavedGraph read_graph(ByteReader& in, std::span<const Variable> variables, Container& data) {
  SavedGraph saved;
  saved.scopes.training = in.flag();
  saved.argument_sizes = in.numbers<int>();
  saved.result_sizes = in.numbers<int>();
  saved.with_mask = in.flag();
  saved.has_custom_gradient = in.flag();
  read_variables(in, variables, saved.graph);
  saved.graph.random_state = in.number<ValueId>();
  const BodyTable bodies = read_bodies(in, data);
  read_content(in, saved.graph, bodies, data);
  check_entries(saved.graph);
  return saved;
}

}  // namespace thalweg
