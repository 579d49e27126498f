#include "thalweg/plan/rematerialise.h"

#include <algorithm>
#include <functional>

#include "thalweg/plan/cost.h"
#include "thalweg/plan/memory_plan.h"

namespace thalweg {
namespace {

constexpr std::int64_t worth_freeing = 4096;  // bytes

// Uses of values on both sides of the boundary.
class Uses {
 public:
  Uses(const Graph& graph, int boundary)
      : graph_(graph), storages_(graph), late_(graph.values.size(), false), boundary_(boundary) {
    for (std::size_t i = static_cast<std::size_t>(boundary); i < graph.nodes.size(); ++i)
      for (ValueId input : graph.nodes[i].inputs) late_[static_cast<std::size_t>(storages_.root(input))] = true;
    for (ValueId value : kept_values(graph)) kept_.push_back(storages_.root(value));
  }
  bool is_late(ValueId value) const { return late_[static_cast<std::size_t>(storages_.root(value))]; }
  bool is_result(ValueId value) const { return std::find(kept_.begin(), kept_.end(), value) != kept_.end(); }
  bool from_outside(ValueId value) const { return storages_.producer(storages_.root(value)) < 0; }
  bool is_view(const Node& node) const { return storages_.is_view(node); }
  ValueId root(ValueId value) const { return storages_.root(value); }
  int producer(ValueId value) const { return storages_.producer(value); }

  // Bytes that the node's results take across the boundary.
  std::int64_t carried(const Node& node) const {
    std::int64_t bytes = 0;
    for (ValueId output : node.outputs)
      if (is_late(output)) bytes += graph_.spec(output).bytes();
    return bytes;
  }
  bool may_run_again(const Node& node) const {
    return !is_view(node) &&
           std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) { return is_result(output); });
  }

 private:
  const Graph& graph_;
  const Storages storages_;
  std::vector<bool> late_;
  std::vector<ValueId> kept_;
  int boundary_;
};

struct Candidate {
  int node;
  double gain;  // bytes freed for each unit of cost
};

}  // namespace

int Recomputation::values(const Graph& graph) const {
  int count = 0;
  for (std::size_t i = 0; i < again.size(); ++i)
    if (again[i]) count += static_cast<int>(graph.nodes[i].outputs.size());
  return count;
}

int find_boundary(const Graph& graph) {
  Graph settled = graph;
  const Boundary boundary = settle_outputs(settled);
  const MemoryPlan memory = plan_memory(settled, boundary, false);
  std::vector<Interval> intervals;
  for (const auto& block : memory.blocks)
    if (block.value >= 0) intervals.push_back(block.interval);
  const auto live = live_bytes(intervals, std::max<int>(1, static_cast<int>(graph.nodes.size())));
  return static_cast<int>(std::max_element(live.begin(), live.end()) - live.begin());
}

Graph recompute_nodes(const Graph& graph, const Recomputation& choice) {
  Graph result = graph;
  result.nodes.clear();
  const std::vector<int> maker = producers(graph);
  std::vector<ValueId> again(graph.values.size(), -1);  // the value computed again
  const std::function<ValueId(ValueId)> renew = [&](ValueId value) -> ValueId {
    const int node = maker[static_cast<std::size_t>(value)];
    if (node < 0 || node >= choice.boundary || !choice.again[static_cast<std::size_t>(node)]) return value;
    if (again[static_cast<std::size_t>(value)] >= 0) return again[static_cast<std::size_t>(value)];
    Node copy = graph.nodes[static_cast<std::size_t>(node)];
    for (ValueId& input : copy.inputs) input = renew(input);
    for (ValueId& output : copy.outputs) {
      const ValueId fresh = result.add_value(graph.spec(output));
      again[static_cast<std::size_t>(output)] = fresh;
      output = fresh;
    }
    result.nodes.push_back(std::move(copy));
    return again[static_cast<std::size_t>(value)];
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node node = graph.nodes[i];
    if (static_cast<int>(i) >= choice.boundary)
      for (ValueId& input : node.inputs) input = renew(input);
    result.nodes.push_back(std::move(node));
  }
  return result;
}

Recomputation choose_cheap(const Graph& graph, int boundary, double share) {
  const Uses uses(graph, boundary);
  Recomputation choice{boundary, std::vector<bool>(graph.nodes.size(), false)};
  std::vector<Candidate> candidates;
  const auto stays = [&](ValueId input) {  // alive behind the boundary in any case
    const int maker = uses.producer(uses.root(input));
    return uses.from_outside(input) || uses.is_late(input) ||
           (maker >= 0 && choice.again[static_cast<std::size_t>(maker)]);
  };
  for (int i = 0; i < boundary; ++i) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    if (flops_of(graph, node) > 0 || !uses.may_run_again(node)) continue;
    std::int64_t gain = uses.carried(node);
    if (gain < worth_freeing) continue;
    for (ValueId input : node.inputs)
      if (!stays(input)) gain -= graph.spec(uses.root(input)).bytes();
    if (gain < worth_freeing) continue;
    choice.again[static_cast<std::size_t>(i)] = true;  // those behind it may count on it
    candidates.push_back({i, static_cast<double>(gain) / cost_of(graph, node)});
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](auto& a, auto& b) { return a.gain > b.gain; });
  const auto taken = static_cast<std::size_t>(share * static_cast<double>(candidates.size()) + 0.999);
  for (std::size_t i = taken; i < candidates.size(); ++i)
    choice.again[static_cast<std::size_t>(candidates[i].node)] = false;
  // Views of what is computed again are views of the new values.
  for (int i = 0; i < boundary; ++i) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    if (!uses.is_view(node)) continue;
    const int maker = uses.producer(uses.root(node.outputs[0]));
    if (maker >= 0 && choice.again[static_cast<std::size_t>(maker)]) choice.again[static_cast<std::size_t>(i)] = true;
  }
  return choice;
}

Recomputation choose_segments(const Graph& graph, int boundary, int segments, double share) {
  const Uses uses(graph, boundary);
  Recomputation choice = choose_cheap(graph, boundary, 1);
  // crossing[p]: bytes made before node p and read by nodes [p, boundary); total[p]: cost of nodes [0, p).
  const auto size = static_cast<std::size_t>(boundary);
  std::vector<double> total(size + 1, 0);
  std::vector<std::int64_t> crossing(size + 1, 0);
  std::vector<int> last_forward(graph.values.size(), -1);
  for (std::size_t i = 0; i < size; ++i) {
    total[i + 1] = total[i] + cost_of(graph, graph.nodes[i]);
    for (ValueId input : graph.nodes[i].inputs)
      last_forward[static_cast<std::size_t>(uses.root(input))] = static_cast<int>(i);
  }
  for (std::size_t value = 0; value < graph.values.size(); ++value) {
    const int maker = uses.producer(static_cast<ValueId>(value));
    if (maker < 0 || maker >= boundary || uses.root(static_cast<ValueId>(value)) != static_cast<ValueId>(value))
      continue;
    for (int p = maker + 1; p <= last_forward[value]; ++p)
      crossing[static_cast<std::size_t>(p)] += graph.values[value].bytes();
  }
  // A cut stands where least crosses, near an even share of the cost.
  std::vector<int> cuts;
  for (int k = 1; k < segments; ++k) {
    const double aim = total[size] * k / segments, reach = total[size] * 0.45 / segments;
    int best = -1;
    for (int p = 1; p < boundary; ++p) {
      const auto at = static_cast<std::size_t>(p);
      if (std::abs(total[at] - aim) > reach) continue;
      if (best < 0 || crossing[at] < crossing[static_cast<std::size_t>(best)]) best = p;
    }
    if (best > 0 && (cuts.empty() || best > cuts.back())) cuts.push_back(best);
  }
  if (cuts.empty()) return choice;
  std::vector<bool> stored(graph.values.size(), false);
  for (std::size_t value = 0; value < graph.values.size(); ++value) {
    const int maker = uses.producer(static_cast<ValueId>(value));
    if (maker < 0 || maker >= boundary) continue;
    for (int cut : cuts)
      if (maker < cut && last_forward[value] >= cut) stored[value] = true;
  }
  // The last segment is used at once: it is kept.
  const int end = cuts[std::min(cuts.size() - 1, static_cast<std::size_t>(share * static_cast<double>(cuts.size())))];
  for (int i = 0; i < std::min(end, boundary); ++i) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    const bool is_stored = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      return stored[static_cast<std::size_t>(uses.root(output))] || uses.is_result(output);
    });
    choice.again[static_cast<std::size_t>(i)] = !is_stored;
  }
  return choice;
}

}  // namespace thalweg
