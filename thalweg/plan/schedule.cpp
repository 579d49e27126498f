#include "thalweg/plan/schedule.h"

#include <algorithm>
#include <numeric>

#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"
#include "thalweg/plan/storage.h"

namespace thalweg {
namespace {

constexpr std::int64_t small_bytes = 4096;

class Scheduler {
 public:
  explicit Scheduler(const Graph& graph)
      : graph_(graph),
        storages_(graph),
        checking_(checking_nodes(graph)),
        updated_(graph.values.size(), -1),
        last_read_(graph.values.size(), -1),
        last_use_(graph.values.size(), -1) {
    for (std::size_t i = 0; i < graph.variables.size(); ++i)
      if (graph.variables[i].update >= 0)
        updated_[static_cast<std::size_t>(graph.variables[i].update)] = static_cast<int>(i);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (ValueId input : graph.nodes[i].inputs) {
        last_use_[static_cast<std::size_t>(input)] = static_cast<int>(i);
        if (!is_update(graph.nodes[i]))
          last_read_[static_cast<std::size_t>(storages_.root(input))] = static_cast<int>(i);
      }
    }
    for (std::size_t i = 0; i < checking_.size(); ++i)
      if (checking_[i]) last_check_ = static_cast<int>(i);
  }

  std::vector<int> keys() {
    std::vector<int> keys(graph_.nodes.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Node& node = graph_.nodes[i];
      keys[i] = static_cast<int>(i);
      if (waits(node)) {
        keys[i] = static_cast<int>(keys.size());
        continue;
      }
      // A node that could refuse its values stays behind the one that has checked them, whose error tells more.
      const bool early = is_update(node) || (is_small(node) && !node.info->checks_values);
      if (!early || checking_[i]) continue;
      int ready = -1;
      for (ValueId input : node.inputs)
        if (const int maker = storages_.producer(input); maker >= 0)
          ready = std::max(ready, keys[static_cast<std::size_t>(maker)]);
      if (is_update(node)) ready = std::max(ready, first_safe(node));
      keys[i] = std::min(ready, keys[i]);
    }
    return keys;
  }

 private:
  bool is_update(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId output) { return updated_[static_cast<std::size_t>(output)] >= 0; });
  }

  // A small update whose results nobody reads: it frees next to nothing, and among others of its kind it costs less.
  bool waits(const Node& node) const {
    return is_op(node, fused_info()) && is_small(node) &&
           std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
             return updated_[static_cast<std::size_t>(output)] >= 0 && last_use_[static_cast<std::size_t>(output)] < 0;
           });
  }

  bool is_small(const Node& node) const {
    const auto small = [&](ValueId value) { return graph_.spec(value).bytes() <= small_bytes; };
    return std::all_of(node.inputs.begin(), node.inputs.end(), small) &&
           std::all_of(node.outputs.begin(), node.outputs.end(), small);
  }

  // After the last node that reads a variable which this one overwrites.
  int first_safe(const Node& node) const {
    int after = last_check_;
    for (ValueId output : node.outputs)
      if (const int variable = updated_[static_cast<std::size_t>(output)]; variable >= 0)
        after = std::max(
            after, last_read_[static_cast<std::size_t>(graph_.variables[static_cast<std::size_t>(variable)].entry)]);
    return after;
  }

  const Graph& graph_;
  const Storages storages_;
  const std::vector<bool> checking_;
  std::vector<int> updated_;    // by value: the variable it is left in
  std::vector<int> last_read_;  // by root: the last node that reads it and does not update
  std::vector<int> last_use_;   // by value: the last node that reads it
  int last_check_ = -1;
};

}  // namespace

Graph schedule(Graph graph) {
  const std::vector<int> keys = Scheduler(graph).keys();
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // A node with the key of its maker stands behind it, since it was traced later.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  std::vector<Node> nodes;
  for (std::size_t i : order) nodes.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace thalweg
