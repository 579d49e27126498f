#include "thalweg/plan/infeasible.h"

#include <algorithm>
#include <map>

#include "thalweg/core/check.h"
#include "thalweg/plan/batch_split.h"

namespace thalweg {
namespace {

bool fits(const Ladder& ladder, std::int64_t budget) {
  for (const Rung& rung : ladder.rungs())
    if (ladder.build_within(rung, budget)) return true;
  return false;
}

std::string name_of(const Graph& graph, const MemoryPlan::Block& block) {
  const Node& node = graph.nodes[static_cast<std::size_t>(block.node)];
  std::string name = node.layer ? path_of(node.layer) + " " : "";
  name += node.info->name;
  return block.value < 0 ? name + " (workspace)" : name;
}

}  // namespace

std::vector<Item> largest_items(const Compiled& compiled, std::size_t count) {
  const auto& blocks = compiled.memory.blocks;
  std::vector<Interval> intervals;
  for (const auto& block : blocks) intervals.push_back(block.interval);
  const auto live = live_bytes(intervals, std::max<int>(1, static_cast<int>(compiled.graph.nodes.size())));
  const auto worst = static_cast<int>(std::max_element(live.begin(), live.end()) - live.begin());
  std::map<std::string, std::int64_t> bytes;
  for (const auto& variable : compiled.graph.variables)
    bytes[variable.variable.trainable() ? "trainable variables" : "other variables"] +=
        memory::rounded(variable.variable.spec().bytes());
  for (const auto& block : blocks)
    if (block.interval.first <= worst && block.interval.last >= worst)
      bytes[name_of(compiled.graph, block)] += block.interval.bytes;
  std::vector<Item> items;
  for (const auto& [name, total] : bytes) items.push_back({name, total});
  std::stable_sort(items.begin(), items.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
  if (items.size() > count) items.resize(count);
  return items;
}

std::optional<std::int64_t> largest_batch(const Ladder& ladder, std::int64_t budget) {
  if (!ladder.obstacle().empty()) return std::nullopt;
  const auto fits_with = [&](std::int64_t examples) {
    auto graph = resize_batch(ladder.graph(), ladder.batch(), examples);
    return graph && fits(Ladder(std::move(*graph), ladder.batch()), budget);
  };
  std::int64_t good = 0, bad = ladder.examples();
  if (!resize_batch(ladder.graph(), ladder.batch(), 1)) return std::nullopt;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits_with(middle) ? good : bad) = middle;
  }
  return good;
}

void throw_infeasible(const Ladder& ladder, std::int64_t budget) {
  const Compiled plain = ladder.build({});
  const std::int64_t smallest = ladder.smallest_peak();
  std::string items;
  for (const auto& item : largest_items(plain, 3))
    items += fmt::format("{}{} {}", items.empty() ? "" : ", ", item.name, format_bytes(item.bytes));
  std::string hint = fmt::format("smallest feasible budget {} bytes ({})", smallest, format_bytes(smallest));
  const std::string obstacle = ladder.obstacle();
  if (!obstacle.empty())
    hint += "; the batch cannot be cut into parts: " + obstacle;
  else if (const auto batch = largest_batch(ladder, budget))
    hint += *batch > 0 ? fmt::format("; at {} the largest batch is {}", format_bytes(budget), *batch)
                       : "; no batch fits: the variables alone take most of it";
  TW_FAIL(resource_exhausted, "plan", hint,
          "step \"{}\" needs {} when everything is kept, the budget is {}, and no plan fits; largest: {}",
          ladder.graph().name, format_bytes(plain.peak_bytes()), format_bytes(budget), items);
}

}  // namespace thalweg
