#include "thalweg/backend/cpu/jit/schedule.h"

#include <algorithm>

namespace thalweg::jit {
namespace {

std::vector<char> live_nodes(const Recording& recording) {
  std::vector<char> live(recording.nodes.size());
  for (const int output : recording.outputs) live[static_cast<std::size_t>(output)] = 1;
  for (std::size_t i = live.size(); i-- > 0;)
    if (live[i])
      for (const int operand : recording.nodes[i].operands)
        if (operand >= 0) live[static_cast<std::size_t>(operand)] = 1;
  return live;
}

// Masks are made where they are used: before the loop there would be no place to keep them.
bool is_invariant(const Node& node, const std::vector<char>& known) {
  if (node.op == Op::load || is_mask(node.op)) return false;
  return std::all_of(node.operands, node.operands + 3,
                     [&](int operand) { return operand < 0 || known[static_cast<std::size_t>(operand)]; });
}

// An output may take the place of an input, so nothing is stored before all inputs are loaded.
void add_body(const Recording& recording, const std::vector<char>& live, Schedule& to) {
  std::vector<Step> stores;
  for (std::size_t k = 0; k < recording.outputs.size(); ++k)
    stores.push_back({recording.outputs[k], static_cast<int>(k)});
  const auto has_input = [&](int i) { return recording.nodes[static_cast<std::size_t>(i)].op == Op::load; };
  int last_load = -1;
  for (int i = 0; i < static_cast<int>(live.size()); ++i)
    if (live[static_cast<std::size_t>(i)] && has_input(i)) last_load = i;
  for (int i = 0; i < static_cast<int>(live.size()); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (live[at] && !to.is_invariant[at]) to.body.push_back({i});
    if (i < last_load) continue;
    for (const Step& store : stores)
      if (i == std::max(store.node, last_load)) to.body.push_back(store);
  }
}

void add_uses(const Recording& recording, Schedule& to) {
  for (int at = 0; at < static_cast<int>(to.body.size()); ++at) {
    const auto [node, output] = to.body[static_cast<std::size_t>(at)];
    if (output >= 0) {
      to.uses[static_cast<std::size_t>(node)].push_back(at);
      continue;
    }
    for (const int operand : recording.nodes[static_cast<std::size_t>(node)].operands)
      if (operand >= 0) to.uses[static_cast<std::size_t>(operand)].push_back(at);
  }
}

int pressure(const Recording& recording, const Schedule& schedule, bool masks_apart) {
  std::vector<int> change(schedule.body.size() + 1);
  for (int at = 0; at < static_cast<int>(schedule.body.size()); ++at) {
    const auto [node, output] = schedule.body[static_cast<std::size_t>(at)];
    const auto& uses = schedule.uses[static_cast<std::size_t>(node)];
    if (output >= 0 || uses.empty()) continue;
    if (masks_apart && is_mask(recording.nodes[static_cast<std::size_t>(node)].op)) continue;
    ++change[static_cast<std::size_t>(at)];
    --change[static_cast<std::size_t>(uses.back())];
  }
  int now = 0, most = 0;
  for (const int step : change) most = std::max(most, now += step);
  return most;
}

}  // namespace

Schedule make_schedule(const Recording& recording, bool masks_apart) {
  Schedule schedule;
  const std::vector<char> live = live_nodes(recording);
  schedule.is_invariant.resize(live.size());
  schedule.uses.resize(live.size());
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    schedule.is_invariant[i] = is_invariant(recording.nodes[i], schedule.is_invariant);
    if (schedule.is_invariant[i] && recording.nodes[i].op != Op::constant)
      schedule.invariant.push_back(static_cast<int>(i));
  }
  add_body(recording, live, schedule);
  add_uses(recording, schedule);
  schedule.pressure = pressure(recording, schedule, masks_apart);
  return schedule;
}

}  // namespace thalweg::jit
