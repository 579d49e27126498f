#include "thalweg/plan/report.h"

#include <algorithm>
#include <map>

#include "thalweg/core/check.h"
#include "thalweg/graph/passes/matching.h"
#include "thalweg/ops/registry.h"
#include "thalweg/plan/cost.h"
#include "thalweg/plan/update_times.h"

namespace thalweg {
namespace {

constexpr std::int64_t long_sequence = 128;  // shorter ones cost little

// Whether a product with other batches of matrices reads the weights, or what dropout leaves of them.
bool weighs_matrices(const GraphView& view, ValueId weights) {
  const auto readers = view.readers(weights);
  return std::any_of(readers.begin(), readers.end(), [&](const Reader& reader) {
    const Node& node = view.node(reader.node);
    if (is_op(node, dropout_info())) return weighs_matrices(view, node.outputs[0]);
    return is_op(node, matmul_info()) && view.graph().spec(Product(node, reader.input).other.value).rank() >= 3;
  });
}

bool is_attention_shaped(const GraphView& view, const Node& node, const Spec& spec) {
  const int rank = spec.rank();
  if (rank < 2 || std::min(spec.shape.last(), spec.shape[rank - 2]) < long_sequence) return false;
  const bool softmax = is_op(node, softmax_info());
  // One of unequal lengths may as well be that of many classes at many places.
  if (spec.shape.last() != spec.shape[rank - 2]) return softmax && weighs_matrices(view, node.outputs[0]);
  // The gradient of a square kernel is a square matmul too, but never one of a batch.
  return softmax || (is_op(node, matmul_info()) && rank >= 3);
}

double work_of(const Graph& graph) {
  double cost = 0;
  for (const auto& node : graph.nodes) cost += cost_of(graph, node);
  return cost;
}

class Text {
 public:
  void line(const std::string& label, const std::string& what) { text_ += fmt::format("  {:<22}{}\n", label, what); }
  void size(const std::string& label, std::int64_t bytes, const std::string& more = "") {
    line(label, fmt::format("{:>12}{}", format_bytes(bytes), more));
  }
  void heading(const std::string& what) { text_ += what + "\n"; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string arguments_of(const Graph& graph) {
  std::string list;
  for (ValueId argument : graph.arguments)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", graph.spec(argument).dtype, graph.spec(argument).shape);
  return list;
}

void write_memory(Text& text, const PlanState& plan) {
  const Compiled& compiled = plan.compiled;
  const MemoryParts parts = memory_parts(compiled);
  const std::int64_t peak = compiled.peak_bytes(), budget = plan.options.memory_budget;
  text.size("peak", peak, fmt::format("   {} bytes", peak));
  text.size("- trainable variables", parts.trainable);
  text.size("- other variables", parts.other_variables, "   optimizer state, statistics");
  text.size("- constants", parts.constants);
  text.size("- results", parts.results);
  const std::int64_t bound = compiled.memory.lower_bound, arena = compiled.memory.arena_bytes;
  const double gap = bound > 0 ? 100.0 * static_cast<double>(arena - bound) / static_cast<double>(bound) : 0;
  text.size("- arena", parts.arena,
            fmt::format("   {} of values, {:.1f} % above the {} alive at once; the rest are addresses",
                        format_bytes(arena), gap, format_bytes(bound)));
  if (budget > 0)
    text.size("budget", budget,
              fmt::format("   {:.0f} % used", 100.0 * static_cast<double>(peak) / static_cast<double>(budget)));
  if (const std::int64_t measured = plan.measured_peak; measured > 0)
    text.size("measured peak", measured, fmt::format("   {} bytes, over all calls", measured));
  else
    text.line("measured peak", "not run yet");
}

void write_choice(Text& text, const PlanState& plan, const Ladder& ladder) {
  const Compiled& compiled = plan.compiled;
  if (plan.traced.precision != Precision::f32)
    text.line("precision", fmt::format("{}, with f32 variables", dtype_of(plan.traced.precision)));
  text.line("way", compiled.rung.describe());
  text.line("micro-batches", std::to_string(compiled.rung.parts));
  text.line("recomputed values", std::to_string(compiled.recomputed));
  if (plan.options.memory_budget > 0) {
    const Compiled plain = ladder.build({});
    text.size("without a budget", plain.peak_bytes());
    if (compiled.rung.parts == 1)
      text.line("work", fmt::format("{:.1f} % more than without a budget, by estimate",
                                    100 * (relative_work(compiled, plain) - 1)));
  }
  const std::string obstacle = ladder.obstacle();
  text.line("the batch", obstacle.empty() ? "can be cut into parts" : "cannot be cut into parts: " + obstacle);
  if (const UpdateTimes times = update_times(compiled); times.variables > 0) text.line("updates", times.describe());
}

void write_warnings(Text& text, const Graph& graph) {
  for (const auto& value : attention_values(graph))
    text.heading(fmt::format(
        "warning: {} is {} {}{}: {} that tw::attention would not keep", value.name, value.spec.dtype, value.spec.shape,
        value.count > 1 ? fmt::format(" ({} such values)", value.count) : "", format_bytes(value.bytes)));
}

}  // namespace

Ladder ladder_of(const PlanState& plan) { return ladder_of(plan.traced, plan.options.batch_arguments); }

std::vector<AttentionValue> attention_values(const Graph& graph) {
  std::vector<AttentionValue> list;
  std::map<std::pair<Layer, const OpInfo*>, std::size_t> known;
  const GraphView view(graph);
  for (const auto& node : graph.nodes) {
    const Spec& spec = graph.spec(node.outputs[0]);
    if (!is_attention_shaped(view, node, spec)) continue;
    const auto [found, added] = known.try_emplace({node.layer, node.info}, list.size());
    if (added)
      list.push_back({fmt::format("{} %{}", describe(node), node.outputs[0]), spec, 1, spec.bytes()});
    else
      ++list[found->second].count, list[found->second].bytes += spec.bytes();
  }
  std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
  return list;
}

double relative_work(const Compiled& compiled, const Compiled& plain) {
  return work_of(compiled.graph) / std::max(work_of(plain.graph), 1e-12);
}

std::string Plan::report() const {
  const Ladder ladder = ladder_of(*state_);
  Text text;
  text.heading(fmt::format("plan of \"{}\" ({})", state_->function, arguments_of(state_->traced)));
  write_memory(text, *state_);
  write_choice(text, *state_, ladder);
  text.heading("largest at the worst moment");
  for (const auto& item : largest_items(state_->compiled, 8))
    text.heading(fmt::format("  {:>12}  {}", format_bytes(item.bytes), item.name));
  write_warnings(text, ladder.graph());
  return text.take();
}

}  // namespace thalweg
