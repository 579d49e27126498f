#include "thalweg/plan/update_times.h"

#include <algorithm>
#include <set>

#include "thalweg/core/check.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/fused/fused_reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"
#include "thalweg/plan/micro_batches.h"
#include "thalweg/plan/storage.h"
#include "thalweg/plan/timeline.h"

namespace thalweg {
namespace {

// For whose updates a value is needed: those of one trained variable, by its number, of none or of several.
constexpr int none = -1, several = -2;

int merge(int a, int b) {
  if (a == none || a == b) return b;
  return b == none ? a : several;
}

// The operands of one of the sets that a node walks; most have a single one.
struct Part {
  int node = -1;
  std::span<const ValueId> inputs, outputs;
};

std::vector<Part> parts_of(const Graph& graph, int index) {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  const std::size_t sets =
      is_op(node, fused_each_info()) ? static_cast<std::size_t>(integer_field(node, "sets")) : std::size_t{1};
  const std::span<const ValueId> inputs(node.inputs.begin(), node.inputs.size()),
      outputs(node.outputs.begin(), node.outputs.size());
  const std::size_t in = inputs.size() / sets, out = outputs.size() / sets;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < sets; ++i)
    parts.push_back({index, inputs.subspan(i * in, in), outputs.subspan(i * out, out)});
  return parts;
}

bool is_elementwise(const Node& node) {
  return row_of(*node.info) || is_op(node, fused_info()) || is_op(node, fused_each_info()) ||
         is_op(node, fused_product_info());
}

class Analysis {
 public:
  explicit Analysis(const Graph& graph)
      : graph_(graph),
        storages_(graph),
        checking_(checking_nodes(graph)),
        makers_(graph.values.size()),
        needed_for_(graph.values.size(), none),
        factor_(graph.values.size(), false),
        last_read_(graph.values.size(), -1) {
    for (const auto& variable : graph.variables)
      if (variable.update >= 0 && variable.variable.trainable()) {
        needed_for_[index(variable.update)] = static_cast<int>(trained_.size());
        trained_.push_back({variable.entry, variable.update});
      }
    for (int i = static_cast<int>(graph.nodes.size()) - 1; i >= 0; --i) read_node(i);
  }

  UpdateTimes run() const {
    UpdateTimes times{static_cast<int>(trained_.size())};
    for (std::size_t i = 0; i < trained_.size(); ++i) {
      const std::string reason = reason_of(static_cast<int>(i));
      const auto known = std::find_if(times.waits.begin(), times.waits.end(),
                                      [&](const UpdateTimes::Wait& wait) { return wait.reason == reason; });
      if (reason.empty())
        ++times.at_once;
      else if (known != times.waits.end())
        ++known->variables;
      else
        times.waits.push_back({reason, 1});
    }
    return times;
  }

 private:
  struct Trained {
    ValueId entry, update;
  };

  static std::size_t index(ValueId value) { return static_cast<std::size_t>(value); }
  const Node& node(int i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }
  const Part& maker(ValueId value) const { return makers_[index(value)]; }
  bool is_copy(const Part& part) const { return part.node >= 0 && is_op(node(part.node), copy_info()); }

  bool makes_update(const Part& part) const {
    return std::any_of(trained_.begin(), trained_.end(), [&](const Trained& trained) {
      const Part& last = maker(trained.update);
      return last.node == part.node || (is_copy(last) && maker(last.inputs[0]).node == part.node);
    });
  }

  // From the last node to the first: what reads a value is known when its maker is looked at.
  void read_node(int i) {
    for (const Part& part : parts_of(graph_, i)) {
      int reached = none;
      for (ValueId output : part.outputs)
        makers_[index(output)] = part, reached = merge(reached, needed_for_[index(output)]);
      for (ValueId input : part.inputs) {
        needed_for_[index(input)] = merge(needed_for_[index(input)], reached);
        if (!is_elementwise(node(i))) factor_[index(input)] = true;
        int& last = last_read_[index(storages_.root(input))];
        last = std::max(last, i);
      }
      if (reached != none && !makes_update(part)) last_gradient_ = std::max(last_gradient_, i);
    }
  }

  // Why the update stands where it does; empty: its gradient has just been made.
  std::string reason_of(int trained) const {
    const auto [entry, left] = trained_[static_cast<std::size_t>(trained)];
    const bool copied = is_copy(maker(left));
    const Part& update = copied ? maker(maker(left).inputs[0]) : maker(left);
    if (update.node < 0) return "the end, as values that are assigned";
    const Needs needs = needs_of(trained, update);
    if (needs.loop) return fmt::format("the sums over {} parts of the batch", needs.loop->parts());
    const int check = last_check(update.node);
    if (check > std::max(needs.gradient, needs.number_at)) return name_of_check(node(check));
    if (needs.number_at >= 0) return name_of_number(needs.number);
    if (const int last = last_read_[index(entry)]; copied && last > update.node)
      return fmt::format("{}, which reads the variable", thalweg::describe(node(last)));
    const bool late = update.node > last_gradient_ && needs.gradient < last_gradient_;
    return late ? "each other, being small" : "";
  }

  // What goes into the update of one variable.
  struct Needs {
    int gradient = -1;    // the last node that makes what the update reads, but for numbers
    ValueId number = -1;  // an element that other updates read too, made when its gradient was there
    int number_at = -1;   // the node that makes it
    const MicroBatches* loop = nullptr;
  };

  Needs needs_of(int trained, const Part& update) const {
    Needs found;
    int given = -1;  // the last node that makes what other updates need too, but for numbers
    std::vector<ValueId> left(update.inputs.begin(), update.inputs.end());
    std::set<ValueId> seen(left.begin(), left.end());
    while (!left.empty()) {
      const ValueId value = left.back();
      left.pop_back();
      const Part& part = maker(value);
      if (part.node < 0) continue;
      const bool own = needed_for_[index(value)] == trained;
      if (!own && graph_.spec(value).size() == 1 && !factor_[index(value)]) {
        if (part.node > found.number_at) found.number = value, found.number_at = part.node;
        continue;
      }
      found.gradient = std::max(found.gradient, part.node);
      if (is_op(node(part.node), micro_batches_info()))
        found.loop = static_cast<const MicroBatches*>(node(part.node).op.get());
      if (!own) given = std::max(given, part.node);
      for (ValueId input : part.inputs)
        if (own && seen.insert(input).second) left.push_back(input);
    }
    if (found.number_at < (given < 0 ? found.gradient : given)) found.number_at = -1;
    return found;
  }

  // The last node, but for this one, that may refuse its values; -1: none.
  int last_check(int besides) const {
    for (int i = static_cast<int>(checking_.size()) - 1; i >= 0; --i)
      if (checking_[static_cast<std::size_t>(i)] && i != besides) return i;
    return -1;
  }

  static std::string name_of_check(const Node& check) {
    const std::string name = thalweg::describe(check);
    if (is_op(check, limit_skips_info())) return fmt::format("the loss scale's check of all gradients ({})", name);
    return fmt::format("{}, which may refuse its values", name);
  }

  std::string name_of_number(ValueId number) const {
    const std::string name = thalweg::describe(node(maker(number).node));
    if (graph_.spec(number).dtype == boolean) return fmt::format("a condition on several gradients ({})", name);
    if (is_of_squares(number)) return fmt::format("the norm of several gradients ({})", name);
    return fmt::format("a number that several gradients make ({})", name);
  }

  // Whether sums of squares go into the number.
  bool is_of_squares(ValueId number) const {
    std::vector<ValueId> left{number};
    std::set<ValueId> seen{number};
    while (!left.empty()) {
      const Part& part = maker(left.back());
      left.pop_back();
      if (part.node < 0) continue;
      const Node& made_by = node(part.node);
      if (is_op(made_by, product_squares_info()) ||
          (is_op(made_by, fused_reduce_info()) && adds_squares(made_by.op.get())))
        return true;
      for (ValueId input : part.inputs)
        if (graph_.spec(input).size() == 1 && seen.insert(input).second) left.push_back(input);
    }
    return false;
  }

  const Graph& graph_;
  const Storages storages_;
  const std::vector<bool> checking_;
  std::vector<Trained> trained_;
  std::vector<Part> makers_;     // by value
  std::vector<int> needed_for_;  // by value
  std::vector<bool> factor_;     // by value: more than elementwise programs read it
  std::vector<int> last_read_;   // by root
  int last_gradient_ = -1;       // the last node that an update needs and that is none itself
};

}  // namespace

std::string UpdateTimes::describe() const {
  std::string text = fmt::format("{} of {} as their gradients appear", at_once, variables);
  for (const Wait& wait : waits)
    text += fmt::format("; {} {} for {}", wait.variables, wait.variables == 1 ? "waits" : "wait", wait.reason);
  return text;
}

UpdateTimes update_times(const Compiled& compiled) { return Analysis(compiled.graph).run(); }

}  // namespace thalweg
