#include "thalweg/data/counters.h"

#include <fmt/core.h>

#include <algorithm>

#include "thalweg/data/node.h"

namespace thalweg::data {
namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

StageStats stage_stats(const std::string& name, const StageCounters& counters) {
  StageStats stage;
  stage.name = name;
  stage.elements = counters.elements;
  stage.busy_seconds = seconds(counters.busy_ns);
  stage.rate = stage.busy_seconds > 0 ? static_cast<double>(stage.elements) / stage.busy_seconds : 0;
  stage.buffered = counters.buffered;
  stage.capacity = counters.capacity;
  stage.workers = counters.workers;
  stage.wait_seconds = seconds(counters.wait_ns);
  return stage;
}

}  // namespace

StageCounters& Counters::of(const Node& node) {
  std::lock_guard lock(mutex_);
  auto& counters = stages_[&node];
  if (!counters) counters = std::make_unique<StageCounters>();
  return *counters;
}

void Counters::add_stages(const Node& node, DatasetStats& stats) {
  for (const auto& input : node.inputs()) add_stages(*input, stats);
  stats.stages.push_back(stage_stats(node.name(), of(node)));
}

DatasetStats Counters::stats(const Node& last) {
  DatasetStats stats;
  stats.elements = elements;
  stats.wait_seconds = seconds(wait_ns);
  stats.total_seconds = seconds(total_ns);
  add_stages(last, stats);
  return stats;
}

std::string DatasetStats::report() const {
  std::string text = fmt::format("{:<16}{:>12}{:>12}{:>16}{:>12}{:>9}{:>10}\n", "stage", "elements", "busy s",
                                 "per busy s", "buffer", "workers", "waited s");
  for (const auto& stage : stages) {
    const std::string rate = stage.rate > 0 ? fmt::format("{:.0f}", stage.rate) : "-";
    const std::string buffer = stage.capacity > 0 ? fmt::format("{}/{}", stage.buffered, stage.capacity) : "-";
    text += fmt::format("{:<16}{:>12}{:>12.3f}{:>16}{:>12}{:>9}{:>10.3f}\n", stage.name, stage.elements,
                        stage.busy_seconds, rate, buffer, stage.workers, stage.wait_seconds);
  }
  return text + fmt::format("consumer: {} elements in {:.3f} s, of which it waited {:.3f} s ({:.1f} %)\n", elements,
                            total_seconds, wait_seconds, 100 * waiting());
}

}  // namespace thalweg::data
