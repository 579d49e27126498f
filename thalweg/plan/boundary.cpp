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

// Values that have a place already.
class Taken {
 public:
  bool has(ValueId value) const {
    return static_cast<std::size_t>(value) < taken_.size() && taken_[static_cast<std::size_t>(value)];
  }
  void add(ValueId value) {
    if (static_cast<std::size_t>(value) >= taken_.size()) taken_.resize(static_cast<std::size_t>(value) + 1, false);
    taken_[static_cast<std::size_t>(value)] = true;
  }

 private:
  std::vector<bool> taken_;
};

// Copies the value unless it is a node's own work, which nobody else has taken.
ValueId own_work(Graph& graph, const Storages& storages, ValueId value, Taken& taken) {
  if (taken.has(value) || storages.root(value) != value || storages.producer(value) < 0) value = add_copy(graph, value);
  taken.add(value);
  return value;
}

// Who reads what last, and which nodes may fail.
class Course {
 public:
  explicit Course(const Graph& graph)
      : storages(graph), checking(checking_nodes(graph)), graph_(graph), last_read_(graph.values.size(), -1) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (checking[i]) last_check_ = static_cast<int>(i);
      for (ValueId input : graph.nodes[i].inputs)
        last_read_[static_cast<std::size_t>(storages.root(input))] = static_cast<int>(i);
    }
  }

  int last_read(ValueId root) const { return last_read_[static_cast<std::size_t>(root)]; }

  // Whether the value may be written over the variable: nobody reads the old value later, and nothing fails later.
  bool may_overwrite(ValueId entry, ValueId update) const {
    const int maker = storages.producer(update), last = last_read(entry);
    if (last_check_ > maker || last > maker) return false;
    if (last < maker) return true;
    const Node& node = graph_.nodes[static_cast<std::size_t>(maker)];
    return node.info->in_place && storages.may_take(graph_, node, entry);
  }

  const Storages storages;
  const std::vector<bool> checking;

 private:
  const Graph& graph_;
  std::vector<int> last_read_;  // by root: the last node that reads it
  int last_check_ = -1;
};

void settle_results(Graph& graph) {
  Taken taken;
  const Storages storages(graph);
  for (ValueId& result : graph.results) result = own_work(graph, storages, result, taken);
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
  Taken taken;
  for (ValueId result : graph.results) taken.add(result);
  const std::vector<Slot> slots = slots_of(graph);
  {
    const Storages storages(graph);
    for (const auto& [entry, update] : slots) *update = own_work(graph, storages, *update, taken);
  }
  std::vector<bool> safe;
  {
    const Course course(graph);
    for (const auto& [entry, update] : slots) safe.push_back(course.may_overwrite(entry, *update));
  }
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!safe[i]) *slots[i].update = add_copy(graph, *slots[i].update);
}

// Values on the way to an update that may stand in the variable's memory before it does.
class Ways {
 public:
  explicit Ways(const Graph& graph) : graph_(graph), course_(graph) {}

  void add_to(Boundary& boundary) {
    for (const auto& output : boundary.outputs) taken_.add(output.value);
    for (std::size_t i = 0; i < boundary.outputs.size(); ++i) {  // which grows
      const auto [value, overwrites] = boundary.outputs[i];
      if (overwrites < 0) continue;
      const ValueId before = before_in_place(value, boundary.inputs[static_cast<std::size_t>(overwrites)]);
      if (before < 0) continue;
      boundary.outputs.push_back({before, overwrites});
      taken_.add(before);
    }
  }

 private:
  // What the maker of the value turns into it and nobody reads afterwards; -1: nothing.
  ValueId before_in_place(ValueId value, ValueId entry) const {
    const int maker = course_.storages.producer(value);
    const Node& node = graph_.nodes[static_cast<std::size_t>(maker)];
    if (!node.info->in_place) return -1;
    for (ValueId input : node.inputs)
      if (graph_.spec(input) == graph_.spec(value) && course_.last_read(input) == maker && !taken_.has(input) &&
          is_whole_work(input) && course_.storages.may_take(graph_, node, input) && course_.may_overwrite(entry, input))
        return input;
    return -1;
  }

  // Made by a node of its own that neither fails nor leaves parts of it behind.
  bool is_whole_work(ValueId value) const {
    const int maker = course_.storages.producer(value);
    return maker >= 0 && course_.storages.root(value) == value && !course_.checking[static_cast<std::size_t>(maker)] &&
           graph_.nodes[static_cast<std::size_t>(maker)].info->in_place;
  }

  const Graph& graph_;
  const Course course_;
  Taken taken_;
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
