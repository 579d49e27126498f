#include "thalweg/plan/rematerialise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "thalweg/plan/cost.h"
#include "thalweg/plan/memory_plan.h"

namespace thalweg {
namespace {

constexpr std::int64_t worth_freeing = 4096;  // bytes

// Uses of values on both sides of the boundary.
class Uses {
 public:
  Uses(const Graph& graph, int boundary)
      : graph_(graph), storages_(graph), late_(graph.values.size(), false), kept_(graph.values.size(), false) {
    for (std::size_t i = static_cast<std::size_t>(boundary); i < graph.nodes.size(); ++i)
      for (ValueId input : graph.nodes[i].inputs) late_[static_cast<std::size_t>(storages_.root(input))] = true;
    for (ValueId value : kept_values(graph)) kept_[static_cast<std::size_t>(storages_.root(value))] = true;
  }
  bool is_late(ValueId value) const { return late_[static_cast<std::size_t>(storages_.root(value))]; }
  bool is_result(ValueId value) const { return kept_[static_cast<std::size_t>(value)]; }
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
  std::vector<bool> late_;  // by root: read behind the boundary
  std::vector<bool> kept_;  // by root: outlives the nodes
};

struct Candidate {
  int node;
  double gain;  // bytes freed for each unit of cost
};

}  // namespace

int find_boundary(const Graph& graph) {
  Graph settled = graph;
  const Boundary boundary = settle_outputs(settled);
  const MemoryPlan memory = plan_memory(settled, boundary, false);
  std::vector<Interval> intervals;
  for (const auto& block : memory.blocks)
    if (block.value >= 0) intervals.push_back(block.interval);
  const auto live = live_bytes(intervals, std::max<int>(1, static_cast<int>(settled.nodes.size())));
  const auto worst = static_cast<int>(std::max_element(live.begin(), live.end()) - live.begin());
  return std::min(worst, static_cast<int>(graph.nodes.size()));  // behind these stand copies of results
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

namespace {

// The forward pass by position: cost of the nodes before it, and bytes made before it that nodes behind it read.
struct ForwardPass {
  ForwardPass(const Graph& graph, const Uses& uses, int boundary)
      : total(static_cast<std::size_t>(boundary) + 1, 0),
        crossing(static_cast<std::size_t>(boundary) + 1, 0),
        last_read(graph.values.size(), -1) {
    for (std::size_t i = 0; i + 1 < total.size(); ++i) {
      total[i + 1] = total[i] + cost_of(graph, graph.nodes[i]);
      for (ValueId input : graph.nodes[i].inputs)
        last_read[static_cast<std::size_t>(uses.root(input))] = static_cast<int>(i);
    }
    std::vector<std::int64_t> change(crossing.size(), 0);
    for (std::size_t value = 0; value < graph.values.size(); ++value) {
      const auto id = static_cast<ValueId>(value);
      const int maker = uses.producer(id);
      if (maker < 0 || maker >= boundary || uses.root(id) != id) continue;
      if (last_read[value] <= maker) continue;
      change[static_cast<std::size_t>(maker) + 1] += graph.values[value].bytes();
      change[static_cast<std::size_t>(last_read[value]) + 1] -= graph.values[value].bytes();
    }
    std::partial_sum(change.begin(), change.end(), crossing.begin());
  }

  // Where least crosses, near an even share of the cost.
  std::vector<int> cuts(int segments) const {
    std::vector<int> found;
    for (int k = 1; k < segments; ++k) {
      const double aim = total.back() * k / segments, reach = total.back() * 0.45 / segments;
      int best = -1;
      for (std::size_t p = 1; p + 1 < total.size(); ++p) {
        if (std::abs(total[p] - aim) > reach) continue;
        if (best < 0 || crossing[p] < crossing[static_cast<std::size_t>(best)]) best = static_cast<int>(p);
      }
      if (best > 0 && (found.empty() || best > found.back())) found.push_back(best);
    }
    return found;
  }

  std::vector<double> total;
  std::vector<std::int64_t> crossing;
  std::vector<int> last_read;  // by root: the last node of the forward pass that reads it
};

}  // namespace

Recomputation choose_segments(const Graph& graph, int boundary, int segments, double share) {
  const Uses uses(graph, boundary);
  Recomputation choice = choose_cheap(graph, boundary, 1);
  const ForwardPass forward(graph, uses, boundary);
  const std::vector<int> cuts = forward.cuts(segments);
  if (cuts.empty()) return choice;
  const auto crosses_a_cut = [&](ValueId value) {
    const int maker = uses.producer(value), last = forward.last_read[static_cast<std::size_t>(value)];
    return maker >= 0 && maker < boundary &&
           std::any_of(cuts.begin(), cuts.end(), [&](int cut) { return maker < cut && last >= cut; });
  };
  // The last segment is used at once: it is kept.
  const int end = cuts[std::min(cuts.size() - 1, static_cast<std::size_t>(share * static_cast<double>(cuts.size())))];
  for (int i = 0; i < std::min(end, boundary); ++i) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    const bool is_stored = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      return crosses_a_cut(uses.root(output)) || uses.is_result(output);
    });
    choice.again[static_cast<std::size_t>(i)] = !is_stored;
  }
  return choice;
}

}  // namespace thalweg
