// Lets products run on 16-bit operands, and keeps what lies between them in 16 bits:
//   %2 = matmul %0 %1;  %3 = relu %2;  %5 = matmul %3 %4
//   becomes   %6 bf16 = cast %0;  %7 bf16 = cast %1;  %2 bf16 = matmul %6 %7;  %8 f32 = cast %2;  %9 f32 = relu %8;
//             %3 bf16 = cast %9;  %10 bf16 = cast %4;  %5 = matmul %3 %10
// Variables stay f32 and are rounded once in a call; elementwise ops compute in f32 and are fused with the casts around
// them; results, updates, losses and statistics are f32. What a value is rounded for is told from its readers, so that
// nothing is rounded that no product comes after.
#include <algorithm>

#include "thalweg/graph/passes/narrowing.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

bool is_product(const NarrowingRule& rule) { return rule.kind == Narrowing::product || rule.kind == Narrowing::stored; }

// What the readers of a value make of it.
struct Use {
  int readers = 0;
  bool kept = false;        // a result or update
  bool wanted = false;      // some reader takes it in 16 bits
  bool reaches = false;     // a product comes after it, however far
  bool stays_wide = false;  // its digits go to a result or a sum without being rounded on the way
};

class Uses {
 public:
  Uses(const Graph& graph, const std::vector<NarrowingRule>& rules) : uses_(graph.values.size()) {
    for (ValueId value : kept_values(graph)) at(value).kept = at(value).stays_wide = true;
    for (std::size_t i = graph.nodes.size(); i-- > 0;) visit(graph.nodes[i], rules[i]);
  }
  const Use& operator[](ValueId value) const { return uses_[static_cast<std::size_t>(value)]; }

 private:
  Use& at(ValueId value) { return uses_[static_cast<std::size_t>(value)]; }

  void visit(const Node& node, const NarrowingRule& rule) {
    bool reaches = is_product(rule), wanted = reaches, stays_wide = false;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Use& out = at(node.outputs[i]);
      const bool follows = rule.kind == Narrowing::follow && rule.outputs[i];
      if (!follows && rule.kind != Narrowing::elementwise) continue;
      wanted |= follows && out.wanted;
      reaches |= out.reaches;
      stays_wide |= out.stays_wide && (out.kept || !out.wanted);
    }
    stays_wide |= rule.kind == Narrowing::wide || rule.kind == Narrowing::read;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      Use& in = at(node.inputs[i]);
      ++in.readers;
      if (rule.kind == Narrowing::elementwise || rule.inputs[i]) in.reaches |= reaches;
      if (rule.inputs[i]) in.wanted |= wanted;
      in.stays_wide |= stays_wide;
    }
  }

  std::vector<Use> uses_;
};

class Narrower {
 public:
  explicit Narrower(Graph graph)
      : dtype_(dtype_of(graph.precision)),
        before_(std::move(graph)),
        after_(before_),
        rules_(rules_of(before_)),
        uses_(before_, rules_) {
    after_.nodes.clear();
    for (std::size_t value = 0; value < before_.values.size(); ++value) wide_.push_back(static_cast<ValueId>(value));
    narrow_.assign(before_.values.size(), -1);
    follows_.assign(before_.values.size(), false);
  }

  Graph run() {
    if (std::none_of(rules_.begin(), rules_.end(), is_product)) return std::move(before_);
    for (std::size_t i = 0; i < before_.nodes.size(); ++i) visit(before_.nodes[i], rules_[i]);
    return std::move(after_);
  }

 private:
  static std::vector<NarrowingRule> rules_of(const Graph& graph) {
    std::vector<NarrowingRule> rules;
    for (const auto& node : graph.nodes) rules.push_back(narrowing_of(graph, node));
    return rules;
  }
  ValueId& wide(ValueId value) { return wide_[static_cast<std::size_t>(value)]; }      // -1: there is none
  ValueId& narrow(ValueId value) { return narrow_[static_cast<std::size_t>(value)]; }  // -1: none yet
  bool is_f32(ValueId value) const { return before_.spec(value).dtype == f32; }

  void add_cast(ValueId from, ValueId to, Layer layer) {
    const auto dtype = static_cast<std::int64_t>(after_.spec(to).dtype);
    after_.nodes.push_back({&cast_info(), make_attributes(cast_info(), {{"dtype", dtype}}), {from}, {to}, layer});
  }
  ValueId add_value(ValueId like, DType dtype) { return after_.add_value({dtype, before_.spec(like).shape}); }

  // The value in 16 bits: rounded once, whoever reads it.
  ValueId narrowed(ValueId value, Layer layer) {
    if (narrow(value) < 0) {
      const ValueId made = add_value(value, dtype_);
      add_cast(value, made, layer);
      narrow(value) = made;
    }
    return narrow(value);
  }
  // The value in f32: for each reader anew, so that no wide copy outlives it.
  ValueId widened(ValueId value, Layer layer) {
    if (wide(value) >= 0) return wide(value);
    const ValueId made = add_value(value, f32);
    add_cast(narrow(value), made, layer);
    return made;
  }

  void visit(const Node& node, const NarrowingRule& rule) {
    switch (rule.kind) {
      case Narrowing::product: return visit_product(node, rule);
      case Narrowing::follow: return follows(node, rule) ? visit_narrow(node, rule, node.op) : visit_wide(node, false);
      case Narrowing::read: return visit_read(node, rule);
      case Narrowing::elementwise: return visit_wide(node, true);
      case Narrowing::stored:
      case Narrowing::wide: return visit_wide(node, false);
    }
  }

  bool follows(const Node& node, const NarrowingRule& rule) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (rule.inputs[i] && is_f32(node.inputs[i]) && narrow(node.inputs[i]) >= 0 && wide(node.inputs[i]) < 0)
        return true;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (rule.outputs[i] && uses_[node.outputs[i]].wanted) return true;
    return false;
  }

  // A product after which no other comes gives its sums unrounded: the gradient of a variable, a result.
  void visit_product(const Node& node, const NarrowingRule& rule) {
    const Use& use = uses_[node.outputs[0]];
    if (!rule.has_wide_result || (use.reaches && !use.kept)) return visit_narrow(node, rule, node.op);
    visit_narrow(node, {rule.kind, rule.inputs, {}}, with_field(node, "wide_result", 1));
  }

  void visit_read(const Node& node, const NarrowingRule& rule) {
    if (wide(node.inputs[0]) >= 0) return visit_wide(node, false);
    visit_narrow(node, {rule.kind, rule.inputs, {}}, with_field(node, "wide_result", 1));
  }

  // With 16-bit operands and results where the rule says so.
  void visit_narrow(const Node& node, const NarrowingRule& rule, std::shared_ptr<const void> op) {
    Node made{node.info, std::move(op), {}, node.outputs, node.layer};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      const bool is_narrow = rule.inputs[i] && is_f32(input);
      made.inputs.push_back(is_narrow       ? narrowed(input, node.layer)
                            : is_f32(input) ? widened(input, node.layer)
                                            : input);
    }
    std::vector<ValueId> widen_again;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (!rule.outputs[i] || !is_f32(output)) continue;
      mark(output);
      if (uses_[output].kept) {
        made.outputs[i] = narrow(output) = add_value(output, dtype_);
        widen_again.push_back(output);
      } else {
        after_.values[static_cast<std::size_t>(output)].dtype = dtype_;
        narrow(output) = output;
        wide(output) = -1;
      }
    }
    after_.nodes.push_back(std::move(made));
    for (ValueId output : widen_again) add_cast(narrow(output), output, node.layer);
  }

  // On f32 operands; results that are to be 16-bit are rounded afterwards.
  void visit_wide(const Node& node, bool is_elementwise) {
    bool from_narrow = false;
    for (ValueId input : node.inputs) from_narrow |= follows_[static_cast<std::size_t>(input)];
    Node made{node.info, node.op, {}, node.outputs, node.layer};
    for (ValueId input : node.inputs) made.inputs.push_back(is_f32(input) ? widened(input, node.layer) : input);
    std::vector<ValueId> round;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (is_elementwise && from_narrow) mark(output);
      if (!is_f32(output) || !is_rounded(output, is_elementwise && from_narrow)) continue;
      mark(output);
      wide(output) = -1;
      made.outputs[i] = add_value(output, f32);
      after_.values[static_cast<std::size_t>(output)].dtype = dtype_;
      narrow(output) = output;
      round.push_back(made.outputs[i]);
      round.push_back(output);
    }
    after_.nodes.push_back(std::move(made));
    for (std::size_t i = 0; i < round.size(); i += 2) add_cast(round[i], round[i + 1], node.layer);
  }

  // Wanted in 16 bits, or read from several places before the next product: forward and backward, say. What only goes
  // through one program stays as it is, in registers.
  bool is_rounded(ValueId value, bool lies_between) const {
    const Use& use = uses_[value];
    if (use.kept || before_.spec(value).size() < 2) return false;
    return use.wanted || (lies_between && use.reaches && !use.stays_wide && use.readers > 1);
  }

  void mark(ValueId value) { follows_[static_cast<std::size_t>(value)] = true; }

  const DType dtype_;
  Graph before_, after_;
  const std::vector<NarrowingRule> rules_;
  const Uses uses_;
  std::vector<ValueId> wide_, narrow_;
  std::vector<bool> follows_;  // rounded, or made of what was
};

}  // namespace

Graph narrow_values(Graph graph) {
  if (graph.precision == Precision::f32) return graph;
  return Narrower(std::move(graph)).run();
}

}  // namespace thalweg
