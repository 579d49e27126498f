#include "thalweg/graph/passes/fusion_groups.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

constexpr std::size_t most_members = 48;   // more than a program has room for
constexpr std::size_t most_visited = 512;  // nodes looked at before a merge is given up
constexpr int few_parts = 4;               // of a sum, which may wait for each other
constexpr std::int64_t few_bytes = KiB(256);

bool computes_in(DType dtype) { return dtype == f32 || dtype == f64; }

// Casts of booleans, of bytes to f32, and between f32 and a 16-bit type: programs load, round and store these.
bool is_program_cast(const Graph& graph, const Node& node) {
  if (!is_op(node, cast_info())) return false;
  const DType from = graph.spec(node.inputs[0]).dtype, to = graph.spec(node.outputs[0]).dtype;
  return from == boolean || (from == u8 && to == f32) || (from == f32 && is_narrow(to)) ||
         (is_narrow(from) && to == f32);
}

// The type that the node's floats are computed in; nullopt: not a node for a program.
std::optional<DType> program_type(const Graph& graph, const Node& node) {
  const bool is_cast = is_program_cast(graph, node);
  if (!row_of(*node.info) && !is_op(node, fused_info()) && !is_cast) return std::nullopt;
  std::optional<DType> type;
  for (const auto* list : {&node.inputs, &node.outputs})
    for (ValueId value : *list) {
      const DType dtype = graph.spec(value).dtype;
      if (dtype == boolean || (is_cast && (is_narrow(dtype) || dtype == u8))) continue;
      if (!computes_in(dtype) || (type && *type != dtype)) return std::nullopt;
      type = dtype;
    }
  return type;
}

}  // namespace

FusionGroups::FusionGroups(const Graph& graph)
    : graph_(graph),
      producers_(producers(graph)),
      users_(graph.values.size()),
      kept_(graph.values.size(), false),
      elementwise_(graph.nodes.size(), false),
      group_of_(graph.nodes.size()),
      scalars_(graph.values.size(), nullptr),
      apart_(graph.nodes.size(), -1) {
  std::iota(group_of_.begin(), group_of_.end(), 0);
  for (const auto& constant : graph.constants)
    if (constant.tensor.rank() == 0 && is_float(constant.tensor.dtype()))
      scalars_[static_cast<std::size_t>(constant.value)] = &constant.tensor;
  for (ValueId value : kept_values(graph)) kept_[static_cast<std::size_t>(value)] = true;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    elementwise_[i] = program_type(graph, graph.nodes[i]).has_value();
    members_.push_back({static_cast<int>(i)});
    for (ValueId input : graph.nodes[i].inputs) users_[static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
  }
  find_long_sums();
}

// Sums of many parts that come one after the other, as the gradient of a weight with many uses is. Joined, they would
// hold every part until the last one is there; apart, each is added where the sum stands.
void FusionGroups::find_long_sums() {
  struct Sum {
    int before = -1;  // the sum without the last part
    int parts = 2;
  };
  std::vector<Sum> sums(graph_.nodes.size());
  std::vector<int> ready(graph_.nodes.size());  // by node: behind which other node its group could run
  const OpInfo& add = row_op(Row::add);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Node& node = graph_.nodes[i];
    ready[i] = elementwise_[i] ? -1 : static_cast<int>(i);
    if (elementwise_[i])
      for (ValueId input : node.inputs)
        if (const int maker = producer(input); maker >= 0)
          ready[i] = std::max(ready[i], ready[static_cast<std::size_t>(maker)]);
    if (!elementwise_[i] || !is_op(node, add)) continue;
    const auto is_part = [&](ValueId input) {
      return graph_.spec(input) == graph_.spec(node.outputs[0]) && producer(input) >= 0 &&
             users_[static_cast<std::size_t>(input)].size() == 1 && !kept_[static_cast<std::size_t>(input)];
    };
    if (!is_part(node.inputs[0]) || !is_part(node.inputs[1])) continue;
    for (ValueId input : node.inputs) {
      const int before = producer(input);
      const auto at = static_cast<std::size_t>(before);
      if (is_op(graph_.nodes[at], add) && ready[at] < ready[i] && sums[at].parts >= sums[i].parts)
        sums[i] = {before, sums[at].parts + 1};
    }
  }
  for (std::size_t i = sums.size(); i-- > 0;) {
    const auto [before, parts] = sums[i];
    const std::int64_t bytes = parts * graph_.spec(graph_.nodes[i].outputs[0]).bytes();
    if (before < 0 || parts <= few_parts || bytes < few_bytes) continue;
    apart_[i] = before;
    sums[static_cast<std::size_t>(before)].parts = parts;  // all links of one sum
  }
}

bool FusionGroups::joinable(int node, int with) const {
  const Node &a = graph_.nodes[static_cast<std::size_t>(node)], &b = graph_.nodes[static_cast<std::size_t>(with)];
  return is_elementwise(node) && is_elementwise(with) &&
         graph_.spec(a.outputs[0]).shape == graph_.spec(b.outputs[0]).shape &&
         program_type(graph_, a) == program_type(graph_, b);
}

// Whether a path leads from the united nodes through others back to them; groups count as one node each. Paths through
// groups that end before the first of them are too many to be followed: what comes back there is found in the end.
bool FusionGroups::comes_back(const Members& united) const {
  const int first = united.front();
  std::vector<bool> in_union(graph_.nodes.size(), false);
  for (int member : united) in_union[static_cast<std::size_t>(member)] = true;
  std::vector<bool> seen = in_union;
  std::vector<int> open;
  // Notes the makers of a member's inputs; true: one of them is of the union.
  const auto look_before = [&](int member) {
    bool of_union = false;
    for (ValueId input : graph_.nodes[static_cast<std::size_t>(member)].inputs) {
      const int maker = producer(input);
      if (maker < 0 || group(maker).back() < first) continue;  // made before any of them
      const auto at = static_cast<std::size_t>(maker);
      of_union |= in_union[at];
      if (!seen[at]) seen[at] = true, open.push_back(maker);
    }
    return of_union;
  };
  for (int member : united) look_before(member);
  for (std::size_t visited = 0; !open.empty(); ++visited) {
    if (visited > most_visited) return true;
    const Members& before = group(open.back());
    open.pop_back();
    for (int member : before)
      if (look_before(member)) return true;
  }
  return false;
}

bool FusionGroups::is_load(int node) const {
  const Node& cast = graph_.nodes[static_cast<std::size_t>(node)];
  return is_op(cast, cast_info()) && is_narrow(graph_.spec(cast.inputs[0]).dtype);
}

// A load of a 16-bit value belongs to the node that reads it: with the node that rounded the value it would be one more
// output, in f32.
void FusionGroups::merge_all(const std::function<bool(const Members&)>& accept) {
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const auto node = static_cast<int>(i);
    if (!is_elementwise(node) || is_load(node)) continue;
    for (ValueId input : graph_.nodes[i].inputs) {
      const int maker = producer(input);
      if (maker < 0) continue;
      merge(maker, node, accept);
      if (!is_load(maker) || &group(maker) != &group(node)) continue;
      const int rounder = producer(graph_.nodes[static_cast<std::size_t>(maker)].inputs[0]);
      if (rounder >= 0) merge(rounder, node, accept);
    }
  }
}

void FusionGroups::merge(int maker, int node, const std::function<bool(const Members&)>& accept) {
  if (!joinable(maker, node) || &group(maker) == &group(node) || apart_[static_cast<std::size_t>(node)] == maker)
    return;
  Members united;
  std::merge(group(maker).begin(), group(maker).end(), group(node).begin(), group(node).end(),
             std::back_inserter(united));
  if (united.size() > most_members || comes_back(united) || !accept(united)) return;
  const int target = group_of_[static_cast<std::size_t>(maker)];
  group(node).clear();
  for (int member : united) group_of_[static_cast<std::size_t>(member)] = target;
  members_[static_cast<std::size_t>(target)] = std::move(united);
}

std::vector<ValueId> FusionGroups::outputs_of(const Members& members) const {
  std::vector<ValueId> outputs;
  for (int member : members)
    for (ValueId output : graph_.nodes[static_cast<std::size_t>(member)].outputs) {
      const auto& users = users_[static_cast<std::size_t>(output)];
      const bool outside = std::any_of(users.begin(), users.end(), [&](int user) {
        return !std::binary_search(members.begin(), members.end(), user);
      });
      if (outside || kept_[static_cast<std::size_t>(output)]) outputs.push_back(output);
    }
  return outputs;
}

// Among the groups whose inputs are made, the one whose last member was traced first.
std::vector<FusionGroups::Members> FusionGroups::in_order() {
  std::vector<int> missing(members_.size(), 0);
  std::vector<std::vector<int>> feeds(members_.size());
  for (std::size_t g = 0; g < members_.size(); ++g) {
    std::vector<int> makers;
    for (int member : members_[g])
      for (ValueId input : graph_.nodes[static_cast<std::size_t>(member)].inputs)
        if (const int maker = producer(input); maker >= 0) {
          const int from = group_of_[static_cast<std::size_t>(maker)];
          if (from != static_cast<int>(g)) makers.push_back(from);
        }
    std::sort(makers.begin(), makers.end());
    makers.erase(std::unique(makers.begin(), makers.end()), makers.end());
    missing[g] = static_cast<int>(makers.size());
    for (int from : makers) feeds[static_cast<std::size_t>(from)].push_back(static_cast<int>(g));
  }
  const auto later = [&](int a, int b) {
    return members_[static_cast<std::size_t>(a)].back() > members_[static_cast<std::size_t>(b)].back();
  };
  std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
  for (std::size_t g = 0; g < members_.size(); ++g)
    if (!members_[g].empty() && missing[g] == 0) ready.push(static_cast<int>(g));
  std::vector<Members> order;
  while (!ready.empty()) {
    const int g = ready.top();
    ready.pop();
    order.push_back(members_[static_cast<std::size_t>(g)]);
    for (int next : feeds[static_cast<std::size_t>(g)])
      if (--missing[static_cast<std::size_t>(next)] == 0) ready.push(next);
  }
  if (std::ranges::all_of(missing, [](int count) { return count == 0; })) return order;
  take_apart_one_of(missing);
  return in_order();
}

// Of the groups that wait for others, one that waits for itself: from any of them the way back ends in a circle.
void FusionGroups::take_apart_one_of(const std::vector<int>& missing) {
  const auto waits = [&](int group) { return missing[static_cast<std::size_t>(group)] > 0; };
  auto g = static_cast<int>(std::ranges::find_if(missing, [](int count) { return count > 0; }) - missing.begin());
  std::vector<bool> seen(missing.size(), false);
  while (!seen[static_cast<std::size_t>(g)] || members_[static_cast<std::size_t>(g)].size() == 1) {
    seen[static_cast<std::size_t>(g)] = true;
    const auto before = [&]() -> int {
      for (int member : members_[static_cast<std::size_t>(g)])
        for (ValueId input : graph_.nodes[static_cast<std::size_t>(member)].inputs) {
          const int maker = producer(input), from = maker < 0 ? g : group_of_[static_cast<std::size_t>(maker)];
          if (from != g && waits(from)) return from;
        }
      return g;
    };
    g = before();
  }
  const Members apart = std::move(members_[static_cast<std::size_t>(g)]);
  members_[static_cast<std::size_t>(g)].clear();
  for (int member : apart)
    group_of_[static_cast<std::size_t>(member)] = member, members_[static_cast<std::size_t>(member)] = {member};
}

}  // namespace thalweg
