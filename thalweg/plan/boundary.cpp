#include "thalweg/plan/boundary.h"

#include <algorithm>

#include "thalweg/ops/registry.h"
#include "thalweg/plan/storage.h"

namespace thalweg {
namespace {

ValueId add_copy(Graph& graph, ValueId value) {
  const ValueId made = graph.add_value(graph.spec(value));
  Node node{&copy_info(), copy_info().make(), {value}, {made}, 0};
  graph.nodes.push_back(std::move(node));
  return made;
}

bool needs_own_node(const Storages& storages, ValueId value) { return storages.root(value) != value; }

// Whether node n may write its output over the variable: nobody reads the old value later, and nothing fails later.
bool may_overwrite(const Graph& graph, const Storages& storages, const std::vector<bool>& checking, ValueId entry,
                   ValueId update) {
  const int maker = storages.producer(update);
  for (std::size_t i = static_cast<std::size_t>(maker); i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool itself = static_cast<int>(i) == maker;
    if (!itself && checking[i]) return false;
    for (ValueId input : node.inputs) {
      if (storages.root(input) != entry) continue;
      if (!itself || !node.info->in_place || graph.spec(input) != graph.spec(update)) return false;
    }
  }
  return true;
}

void settle_results(Graph& graph) {
  std::vector<ValueId> taken;
  const Storages storages(graph);
  for (ValueId& result : graph.results) {
    const bool again = std::find(taken.begin(), taken.end(), result) != taken.end();
    if (again || needs_own_node(storages, result) || storages.producer(result) < 0) result = add_copy(graph, result);
    taken.push_back(result);
  }
}

// Variables and carries alike: what is read at entry, and what is left.
struct Slot {
  ValueId entry;
  ValueId* update;
};

std::vector<Slot> slots_of(Graph& graph) {
  std::vector<Slot> slots;
  for (auto& carry : graph.carries) slots.push_back({carry.entry, &carry.update});
  for (auto& variable : graph.variables)
    if (variable.update >= 0) slots.push_back({variable.entry, &variable.update});
  return slots;
}

void settle_updates(Graph& graph) {
  // What is no node's own work is first brought into memory of its own: it may be another variable's old value.
  std::vector<ValueId> taken = graph.results;
  const std::vector<Slot> slots = slots_of(graph);
  {
    const Storages storages(graph);
    for (const auto& [entry, update] : slots) {
      const bool again = std::find(taken.begin(), taken.end(), *update) != taken.end();
      if (again || needs_own_node(storages, *update) || storages.producer(*update) < 0)
        *update = add_copy(graph, *update);
      taken.push_back(*update);
    }
  }
  const Storages storages(graph);
  const std::vector<bool> checking = checking_nodes(graph);
  std::vector<bool> safe;
  for (const auto& [entry, update] : slots) safe.push_back(may_overwrite(graph, storages, checking, entry, *update));
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!safe[i]) *slots[i].update = add_copy(graph, *slots[i].update);
}

// Values on the way to an update that may stand in the variable's memory before it does.
class Ways {
 public:
  explicit Ways(const Graph& graph)
      : graph_(graph), storages_(graph), checking_(checking_nodes(graph)), last_use_(graph.values.size(), -1) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      for (ValueId input : graph.nodes[i].inputs)
        last_use_[static_cast<std::size_t>(storages_.root(input))] = static_cast<int>(i);
  }

  void add_to(Boundary& boundary) {
    for (const auto& output : boundary.outputs) taken_.push_back(output.value);
    for (std::size_t i = 0; i < boundary.outputs.size(); ++i) {  // which grows
      const auto [value, overwrites] = boundary.outputs[i];
      if (overwrites < 0) continue;
      const ValueId before = before_in_place(value, boundary.inputs[static_cast<std::size_t>(overwrites)]);
      if (before < 0) continue;
      boundary.outputs.push_back({before, overwrites});
      taken_.push_back(before);
    }
  }

 private:
  // What the maker of the value turns into it and nobody reads afterwards; -1: nothing.
  ValueId before_in_place(ValueId value, ValueId entry) const {
    const int maker = storages_.producer(value);
    const Node& node = graph_.nodes[static_cast<std::size_t>(maker)];
    if (!node.info->in_place) return -1;
    for (ValueId input : node.inputs)
      if (graph_.spec(input) == graph_.spec(value) && last_use_[static_cast<std::size_t>(input)] == maker &&
          std::find(taken_.begin(), taken_.end(), input) == taken_.end() && is_whole_work(input) &&
          may_overwrite(graph_, storages_, checking_, entry, input))
        return input;
    return -1;
  }

  // Made by a node of its own that neither fails nor leaves parts of it behind.
  bool is_whole_work(ValueId value) const {
    const int maker = storages_.producer(value);
    return maker >= 0 && storages_.root(value) == value && !checking_[static_cast<std::size_t>(maker)] &&
           graph_.nodes[static_cast<std::size_t>(maker)].info->in_place;
  }

  const Graph& graph_;
  const Storages storages_;
  const std::vector<bool> checking_;
  std::vector<int> last_use_;  // by root
  std::vector<ValueId> taken_;
};

}  // namespace

Boundary settle_outputs(Graph& graph) {
  for (auto& variable : graph.variables)
    if (variable.update == variable.entry) variable.update = -1;
  settle_results(graph);
  settle_updates(graph);
  Boundary boundary;
  boundary.inputs = graph.arguments;
  const auto first_carry = static_cast<int>(boundary.inputs.size());
  for (const auto& carry : graph.carries) boundary.inputs.push_back(carry.entry);
  const auto first_variable = static_cast<int>(boundary.inputs.size());
  for (const auto& variable : graph.variables) boundary.inputs.push_back(variable.entry);
  for (const auto& constant : graph.constants) boundary.inputs.push_back(constant.value);
  for (const auto& number : graph.host_numbers) boundary.inputs.push_back(number.value);
  if (graph.random_state >= 0) boundary.inputs.push_back(graph.random_state);
  for (ValueId result : graph.results) boundary.outputs.push_back({result, -1});
  for (std::size_t i = 0; i < graph.carries.size(); ++i)
    boundary.outputs.push_back({graph.carries[i].update, first_carry + static_cast<int>(i)});
  for (std::size_t i = 0; i < graph.variables.size(); ++i)
    if (graph.variables[i].update >= 0)
      boundary.outputs.push_back({graph.variables[i].update, first_variable + static_cast<int>(i)});
  Ways(graph).add_to(boundary);
  return boundary;
}

}  // namespace thalweg
