#include "thalweg/plan/timeline.h"

#include <algorithm>
#include <map>

#include "thalweg/graph/rewrite.h"
#include "thalweg/plan/micro_batches.h"

namespace thalweg {
namespace {

std::vector<std::int64_t> alive(const Compiled& compiled, bool workspaces) {
  std::vector<Interval> intervals;
  for (const auto& block : compiled.memory.blocks)
    if ((block.value < 0) == workspaces) intervals.push_back(block.interval);
  return live_bytes(intervals, std::max<int>(1, static_cast<int>(compiled.graph.nodes.size())));
}

using Totals = std::map<std::string, std::int64_t>;

void add_worst_moment(const Compiled& compiled, int lanes, Totals& bytes) {
  const auto values = alive(compiled, false), workspaces = alive(compiled, true);
  std::size_t worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] + workspaces[i] > values[worst] + workspaces[worst]) worst = i;
  for (const auto& block : compiled.memory.blocks) {
    if (block.interval.first > static_cast<int>(worst) || block.interval.last < static_cast<int>(worst)) continue;
    const Node& node = compiled.graph.nodes[static_cast<std::size_t>(block.node)];
    const MicroBatches* loop = block.value < 0 ? loop_of(node) : nullptr;
    if (loop)
      add_worst_moment(loop->body->compiled(), lanes * loop->lanes, bytes);
    else
      bytes[describe(node) + (block.value < 0 ? " (workspace)" : "")] += lanes * block.interval.bytes;
  }
}

}  // namespace

std::string describe(const Node& node) {
  return node.layer ? path_of(node.layer) + " " + node.info->name : node.info->name;
}

std::vector<Moment> timeline(const Compiled& compiled) {
  const auto values = alive(compiled, false), workspaces = alive(compiled, true);
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < compiled.graph.nodes.size(); ++i) {
    const Node& node = compiled.graph.nodes[i];
    if (const MicroBatches* loop = loop_of(node)) {
      for (const auto& inner : timeline(loop->body->compiled()))
        moments.push_back({inner.node, values[i] + loop->lanes * inner.values, loop->lanes * inner.workspace});
    } else {
      moments.push_back({&node, values[i], workspaces[i]});
    }
  }
  return moments;
}

std::vector<MemoryItem> largest_items(const Compiled& compiled, std::size_t count) {
  Totals bytes;
  const MemoryParts parts = memory_parts(compiled);
  if (parts.trainable > 0) bytes["trainable variables"] = parts.trainable;
  if (parts.other_variables > 0) bytes["other variables"] = parts.other_variables;
  add_worst_moment(compiled, 1, bytes);
  std::vector<MemoryItem> items;
  for (const auto& [name, total] : bytes) items.push_back({name, total});
  std::stable_sort(items.begin(), items.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
  if (items.size() > count) items.resize(count);
  return items;
}

MemoryParts memory_parts(const Compiled& compiled) {
  MemoryParts parts;
  for (const auto& variable : compiled.graph.variables)
    (variable.variable.trainable() ? parts.trainable : parts.other_variables) +=
        memory::rounded(compiled.graph.spec(variable.entry).bytes());
  parts.constants = compiled.state_bytes - parts.trainable - parts.other_variables;
  parts.results = compiled.result_bytes;
  parts.arena = compiled.peak_bytes() - compiled.state_bytes - compiled.result_bytes;
  return parts;
}

}  // namespace thalweg
