#include "thalweg/plan/ladder.h"

#include <algorithm>
#include <limits>
#include <set>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/plan/batch_split.h"
#include "thalweg/plan/early_slopes.h"
#include "thalweg/plan/group_updates.h"
#include "thalweg/plan/join_products.h"
#include "thalweg/plan/micro_batches.h"
#include "thalweg/plan/rematerialise.h"
#include "thalweg/plan/resize_batch.h"
#include "thalweg/plan/schedule.h"

namespace thalweg {
namespace {

// The number of segments with which least is alive.
Recomputation best_segments(const Graph& graph, int boundary, double share) {
  Recomputation best;
  std::int64_t least = -1;
  for (int segments : {3, 4, 6, 8, 12, 16, 24}) {
    Recomputation choice = choose_segments(graph, boundary, segments, share);
    Graph trial = schedule(recompute_nodes(graph, choice));
    const Boundary edge = settle_outputs(trial);
    const std::int64_t alive = plan_memory(trial, edge, false).lower_bound;
    if (least < 0 || alive < least) least = alive, best = std::move(choice);
  }
  return best;
}

std::int64_t bytes_of_results(const Graph& graph) {
  std::int64_t bytes = 0;
  for (ValueId result : graph.results)
    bytes += std::max(memory::rounded(graph.spec(result).bytes()), memory::alignment);
  return bytes;
}

// Of buffers that are not in `seen` yet: constants may be views of one, and the host's own memory does not count.
std::int64_t bytes_of_constants(const Graph& graph, std::set<const Buffer*>& seen) {
  std::int64_t bytes = 0;
  for (const auto& constant : graph.constants) {
    const Buffer* buffer = constant.tensor.impl().buffer.get();
    if (seen.insert(buffer).second && buffer->writable()) bytes += buffer->bytes();
  }
  return bytes;
}

std::int64_t bytes_of_state(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const auto& variable : graph.variables) bytes += memory::rounded(graph.spec(variable.entry).bytes());
  for (const auto& constant : graph.constants) bytes += memory::rounded(graph.spec(constant.value).bytes());
  return bytes;
}

// Parts with less to do than this lose more to calls of ops and to weights read again than they gain.
constexpr std::int64_t smallest_lane = KiB(512);

bool has_wide_lanes(const Graph& split) {
  return std::all_of(split.nodes.begin(), split.nodes.end(), [](const Node& node) {
    const MicroBatches* loop = loop_of(node);
    return !loop || loop->body->workspace() >= smallest_lane;
  });
}

}  // namespace

std::string Rung::describe() const {
  static const char* const efforts[] = {"everything kept",
                                        "a third of the cheap values recomputed",
                                        "two thirds of the cheap values recomputed",
                                        "cheap values recomputed",
                                        "a quarter of the forward pass recomputed",
                                        "half of the forward pass recomputed",
                                        "three quarters of the forward pass recomputed",
                                        "the forward pass recomputed"};
  std::string text;
  if (parts > 1) text += fmt::format("the batch in {} parts, ", parts);
  if (lanes > 1) text += fmt::format("{} at a time, ", lanes);
  return text + efforts[effort];
}

Draft make_draft(Graph graph, int effort) {
  Draft draft{join_products(std::move(graph)), {}, {}, 0};
  if (effort > 0) {
    const int boundary = find_boundary(draft.graph);
    const Recomputation choice = effort <= 3 ? choose_cheap(draft.graph, boundary, effort / 3.0)
                                             : best_segments(draft.graph, boundary, (effort - 3) / 4.0);
    const std::size_t values = draft.graph.values.size();
    draft.graph = schedule(recompute_nodes(draft.graph, choice));
    draft.recomputed = static_cast<int>(draft.graph.values.size() - values);
  } else {
    draft.graph = take_slopes_early(std::move(draft.graph));
  }
  draft.boundary = settle_outputs(draft.graph);
  draft.graph = group_updates(std::move(draft.graph));  // by now all updates that are left write their variables
  draft.memory = plan_memory(draft.graph, draft.boundary, false);
  return draft;
}

Compiled finish(Draft draft) {
  Compiled result;
  result.graph = std::move(draft.graph);
  result.boundary = std::move(draft.boundary);
  result.memory = plan_memory(result.graph, result.boundary);
  result.executable = std::make_shared<Executable>(result.graph, result.memory);
  result.recomputed = draft.recomputed;
  result.state_bytes = bytes_of_state(result.graph);
  result.result_bytes = bytes_of_results(result.graph);
  return result;
}

Ladder::Ladder(Graph graph, const std::vector<int>& asked, std::int64_t held_bytes)
    : graph_(std::move(graph)), batch_(batch_arguments(graph_, asked)), held_bytes_(held_bytes) {}

std::optional<Ladder> Ladder::resized(std::int64_t examples) const {
  auto graph = resize_batch(graph_, batch_, examples);
  if (!graph) return std::nullopt;
  return Ladder(std::move(*graph), batch_, held_bytes_);
}

Ladder ladder_of(const Graph& traced, const std::vector<int>& batch_arguments) {
  Graph graph = run_passes(traced);
  std::set<const Buffer*> used;
  for (const auto& constant : graph.constants) used.insert(constant.tensor.impl().buffer.get());
  const std::int64_t held = bytes_of_constants(traced, used);
  return Ladder(std::move(graph), batch_arguments, held);
}

std::int64_t Ladder::examples() const {
  return batch_.empty() ? 1 : graph_.spec(graph_.arguments[static_cast<std::size_t>(batch_[0])]).shape[0];
}

std::string Ladder::obstacle() const { return batch_loops(graph_, batch_, 1).obstacle; }

// Where parts of the batch cost nothing they come before any recomputation; and before parts that run one after the
// other, with all threads in each op, come more and smaller ones, each on one thread: these wait for each other once.
std::vector<Rung> Ladder::rungs() const {
  std::vector<Rung> list;
  const BatchLoops halves = batch_loops(graph_, batch_, 2);
  const bool parts_are_free = halves.obstacle.empty() && !halves.add_up;
  const int lanes = parts_are_free ? config::threads() : 1;
  // As many as there are if all but the last have equally many examples.
  const auto even = [&](std::int64_t parts) {
    const std::int64_t part = (examples() + parts - 1) / parts;
    return (examples() + part - 1) / part;
  };
  const auto add_parts = [&](std::initializer_list<int> efforts) {
    int halvings = 52 / static_cast<int>(efforts.size());
    for (std::int64_t parts = 2; parts < 2 * examples() && halvings >= 0; parts *= 2, --halvings)
      for (int effort : efforts) {
        if (lanes > 1 && parts * lanes <= examples()) list.push_back({even(parts * lanes), effort, lanes});
        list.push_back({even(parts), effort});
      }
  };
  if (parts_are_free) list.push_back({1, 0}), add_parts({0});
  for (int effort = parts_are_free ? 1 : 0; effort <= most_effort; ++effort) list.push_back({1, effort});
  if (parts_are_free)
    add_parts({3, most_effort});
  else
    add_parts({0, 3, most_effort});
  return list;
}

Compiled Ladder::build(const Rung& rung) const {
  auto found = build_within(rung, std::int64_t{1} << 62);
  TW_CHECK_INTERNAL(found.has_value(), "plan", "the plan \"{}\" cannot be built", rung.describe());
  return std::move(*found);
}

std::optional<Compiled> Ladder::build_within(const Rung& rung, std::int64_t budget) const {
  const auto [known, unknown] = least_.try_emplace({rung.parts, rung.effort, rung.lanes}, fixed_bytes());
  std::int64_t& least = known->second;
  if (least > budget) return std::nullopt;
  Graph graph = graph_;
  if (rung.parts > 1) {
    BatchSplit split = split_batch(graph_, batch_, rung, budget - fixed_bytes());
    const bool none = !split.obstacle.empty() || (rung.lanes > 1 && !has_wide_lanes(split.graph));
    if (none || split.too_large > 0) {
      least = none ? std::numeric_limits<std::int64_t>::max() : fixed_bytes() + split.too_large;
      return std::nullopt;
    }
    graph = schedule(std::move(split.graph));
  }
  Draft draft = make_draft(std::move(graph), rung.parts > 1 ? 0 : rung.effort);
  least = fixed_bytes() + draft.memory.lower_bound;
  if (least > budget) return std::nullopt;
  Compiled compiled = finish(std::move(draft));
  compiled.state_bytes += held_bytes_;
  compiled.rung = rung;
  for (const Node& node : compiled.graph.nodes)
    if (const MicroBatches* loop = loop_of(node)) compiled.recomputed += loop->body->compiled().recomputed;
  least = compiled.peak_bytes();
  if (least > budget) return std::nullopt;
  return compiled;
}

std::int64_t Ladder::fixed_bytes() const { return held_bytes_ + bytes_of_state(graph_) + bytes_of_results(graph_); }

// The smallest plans stand last: once they are known, most others are seen not to be smaller before they are packed.
std::int64_t Ladder::smallest_peak() const {
  std::int64_t smallest = std::int64_t{1} << 62;
  const auto list = rungs();
  for (auto rung = list.rbegin(); rung != list.rend(); ++rung) {
    if (rung->lanes > 1) continue;  // as many parts one after the other take less
    if (const auto compiled = build_within(*rung, smallest - 1)) smallest = compiled->peak_bytes();
  }
  return smallest;
}

}  // namespace thalweg
