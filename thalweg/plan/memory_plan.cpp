#include "thalweg/plan/memory_plan.h"

#include <algorithm>

#include "thalweg/graph/rewrite.h"

namespace thalweg {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const Boundary& boundary)
      : graph_(graph), storages_(graph), last_use_(graph.values.size(), -1), shared_(graph.values.size(), -1) {
    plan_.places.resize(graph.values.size());
    for (std::size_t i = 0; i < boundary.inputs.size(); ++i)
      place(boundary.inputs[i]) = {Place::Kind::input, static_cast<int>(i), 0};
    for (std::size_t i = 0; i < boundary.outputs.size(); ++i) {
      const auto& output = boundary.outputs[i];
      place(output.value) = output.overwrites >= 0 ? Place{Place::Kind::input, output.overwrites, 0}
                                                   : Place{Place::Kind::output, static_cast<int>(i), 0};
    }
  }

  MemoryPlan run(bool packed) {
    find_last_uses();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) place_outputs(static_cast<int>(i));
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) add_scratch(static_cast<int>(i));
    const auto steps = static_cast<int>(graph_.nodes.size());
    std::vector<Interval> intervals;
    for (const auto& block : plan_.blocks) intervals.push_back(block.interval);
    for (std::int64_t bytes : live_bytes(intervals, std::max(steps, 1)))
      plan_.lower_bound = std::max(plan_.lower_bound, bytes);
    if (packed) set_offsets(intervals);
    return std::move(plan_);
  }

 private:
  Place& place(ValueId value) { return plan_.places[static_cast<std::size_t>(value)]; }
  int& last_use(ValueId value) { return last_use_[static_cast<std::size_t>(value)]; }
  int& shared(ValueId value) { return shared_[static_cast<std::size_t>(value)]; }

  void find_last_uses() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (ValueId output : graph_.nodes[i].outputs)
        last_use(storages_.root(output)) = std::max(last_use(storages_.root(output)), static_cast<int>(i));
      for (ValueId input : graph_.nodes[i].inputs) last_use(storages_.root(input)) = static_cast<int>(i);
    }
  }

  // A value takes the block of a dying input of the same shape where the op allows it, else a new block.
  void place_outputs(int i) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(i)];
    if (storages_.is_view(node)) return;
    std::vector<int> reused;
    for (ValueId output : node.outputs) {
      if (place(output).kind != Place::Kind::none) continue;
      int block = node.info->in_place ? dying_input(node, i, output, reused) : -1;
      if (block < 0) {
        block = static_cast<int>(plan_.blocks.size());
        plan_.blocks.push_back({{graph_.spec(output).bytes(), i, i, 0}, output, i});
      }
      reused.push_back(block);
      shared(output) = block;
      auto& interval = plan_.blocks[static_cast<std::size_t>(block)].interval;
      interval.last = std::max(interval.last, last_use(output));
    }
  }

  int dying_input(const Node& node, int i, ValueId output, const std::vector<int>& reused) {
    for (ValueId input : node.inputs) {
      const ValueId root = storages_.root(input);
      const int block = shared(root);
      if (block < 0 || last_use(root) != i || storages_.offset(input) != 0) continue;
      if (graph_.spec(input).shape != graph_.spec(output).shape ||
          graph_.spec(input).bytes() != graph_.spec(output).bytes())
        continue;
      if (plan_.blocks[static_cast<std::size_t>(block)].interval.bytes != graph_.spec(output).bytes()) continue;
      if (std::find(reused.begin(), reused.end(), block) == reused.end() && storages_.may_take(graph_, node, input))
        return block;
    }
    return -1;
  }

  void add_scratch(int i) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(i)];
    SmallVector<const Spec*, 4> specs;
    const bool asks = node.info->workspace && !storages_.is_view(node);
    const std::int64_t bytes = asks ? node.info->workspace(node.op.get(), input_specs(graph_, node, specs)) : 0;
    plan_.workspace.push_back(bytes);
    scratch_block_.push_back(bytes > 0 ? static_cast<int>(plan_.blocks.size()) : -1);
    if (bytes > 0) plan_.blocks.push_back({{bytes, i, i, 0}, -1, i});
  }

  void set_offsets(std::vector<Interval>& intervals) {
    plan_.arena_bytes = pack(intervals);
    for (std::size_t i = 0; i < intervals.size(); ++i) plan_.blocks[i].interval = intervals[i];
    const auto at = [&](int block) {
      return block < 0 ? Place{}
                       : Place{Place::Kind::arena, 0, plan_.blocks[static_cast<std::size_t>(block)].interval.offset};
    };
    for (std::size_t value = 0; value < plan_.places.size(); ++value) {
      const ValueId root = storages_.root(static_cast<ValueId>(value));
      auto& place = plan_.places[value];
      if (place.kind != Place::Kind::none) continue;
      place = shared(root) >= 0 ? at(shared(root)) : plan_.places[static_cast<std::size_t>(root)];
      place.offset += storages_.offset(static_cast<ValueId>(value));
    }
    for (int block : scratch_block_) plan_.scratch.push_back(at(block));
  }

  const Graph& graph_;
  Storages storages_;
  std::vector<int> last_use_;  // by root: the last node that touches it
  std::vector<int> shared_;    // by root: its block in the arena, -1: outside
  std::vector<int> scratch_block_;
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const Boundary& boundary, bool packed) {
  return Planner(graph, boundary).run(packed);
}

}  // namespace thalweg
