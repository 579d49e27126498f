// Joins elementwise nodes of one shape that feed each other into `fused` programs: operands are read once, results
// between them stay in the cache. Scalar constants, fills and broadcasts become operands of the program.
//   %2 = add %0 %1;  %3 = relu %2;  return %3     becomes     %3 = fused %0 %1 {rows = add relu}
// Rounding stays where it was: every row rounds to the values' dtype, so that only f32 and f64 are joined. Casts from
// bytes or a 16-bit type are loads, casts to the latter round, and are stores where others read the value.
#include <algorithm>

#include "thalweg/graph/passes/fusion_groups.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/expression.h"
#include "thalweg/ops/fill/fill_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

using Members = std::vector<int>;  // node numbers, in order

// Writes the members of a group as one program.
class GroupWriter {
 public:
  GroupWriter(const Graph& graph, const FusionGroups& groups, const Members& members)
      : graph_(graph), groups_(groups), members_(members), shape_(graph.spec(node(members.back()).outputs[0]).shape) {}

  // The fused node; null if the group is better left as it is.
  std::optional<Node> write(const std::vector<ValueId>& wanted) {
    for (const bool keep_shape : {false, true}) {
      keep_shape_ = keep_shape;
      collect_inputs();
      if (inputs_.empty()) continue;
      if (auto made = try_write(wanted)) return made;
    }
    return std::nullopt;
  }

 private:
  const Node& node(int member) const { return graph_.nodes[static_cast<std::size_t>(member)]; }

  // What the program reads instead of the value: the operand of a broadcast.
  ValueId source(ValueId value) const {
    const int maker = groups_.producer(value);
    if (keep_shape_ || maker < 0 || !is_op(node(maker), broadcast_to_info())) return value;
    return node(maker).inputs[0];
  }

  // The number that a value is everywhere, if it is one that is known now.
  std::optional<double> number(ValueId value) const {
    if (const Tensor* tensor = groups_.scalar_constant(value)) return tensor->item<double>();
    const int maker = groups_.producer(value);
    if (keep_shape_ || maker < 0 || !is_op(node(maker), fill_info()) || !is_float(graph_.spec(value).dtype))
      return std::nullopt;
    return static_cast<const Fill*>(node(maker).op.get())->real;
  }

  bool inside(ValueId value) const {
    return std::binary_search(members_.begin(), members_.end(), groups_.producer(value));
  }

  void collect_inputs() {
    inputs_.clear();
    for (int member : members_)
      for (ValueId input : node(member).inputs)
        if (!inside(input) && !number(input)) add_unique(inputs_, source(input));
  }

  static void add_unique(std::vector<ValueId>& list, ValueId value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  }

  std::optional<Node> try_write(const std::vector<ValueId>& wanted) {
    if (wanted.size() > Ints::capacity) return std::nullopt;
    ProgramWriter writer(static_cast<int>(inputs_.size()));
    expressions_.clear();
    for (int member : members_) write_member(node(member));
    std::vector<int> roots, used;
    Ints dtypes;
    for (ValueId value : wanted) {
      roots.push_back(find(value).id());
      dtypes.push_back(static_cast<std::int64_t>(graph_.spec(value).dtype));
    }
    Program program = writer.finish(roots, used);
    const int operands = program.first_result() + static_cast<int>(program.instructions.size());
    if (operands > max_program_operands || program.instructions.empty()) return std::nullopt;
    Node made{&fused_info(), nullptr, {}, {wanted.begin(), wanted.end()}, node(members_.back()).layer};
    for (int input : used) made.inputs.push_back(inputs_[static_cast<std::size_t>(input)]);
    made.op = make_fused(std::move(program), dtypes);
    return fits(made) ? std::optional(std::move(made)) : std::nullopt;
  }

  // The inputs that are left must still give the shape, and they or the outputs the type that is computed in.
  bool fits(const Node& made) const {
    SmallVector<const Spec*, 4> specs;
    const Inputs in = input_specs(graph_, made, specs);
    const Specs inferred = made.info->infer(made.op.get(), in);
    bool has_float = false;
    for (int i = 0; i < in.size(); ++i) has_float |= is_float(in[i].dtype);
    for (const Spec& out : inferred) has_float |= is_float(out.dtype);
    return has_float && inferred[0].shape == shape_;
  }

  Expression find(ValueId value) const {
    for (const auto& [known, expression] : expressions_)
      if (known == value) return expression;
    if (const auto constant = number(value)) return Expression(*constant);
    const auto at = std::find(inputs_.begin(), inputs_.end(), source(value));
    return Expression::input(static_cast<int>(at - inputs_.begin()));
  }

  void write_member(const Node& member) {
    std::vector<Expression> operands;
    for (ValueId input : member.inputs) operands.push_back(find(input));
    if (const RowInfo* row = row_of(*member.info)) {
      expressions_.emplace_back(member.outputs[0], call(row->row, operands));
    } else if (is_op(member, cast_info())) {
      expressions_.emplace_back(member.outputs[0], rounded(operands[0], graph_.spec(member.outputs[0]).dtype));
    } else {
      write_program(program_of(member.op.get()), operands, member.outputs);
    }
  }

  void write_program(const Program& program, std::vector<Expression> values, const ValueIds& outputs) {
    for (double constant : program.constants) values.emplace_back(constant);
    for (const auto& instruction : program.instructions) {
      std::vector<Expression> operands;
      for (int operand : instruction.operands)
        if (operand >= 0) operands.push_back(values[static_cast<std::size_t>(operand)]);
      values.push_back(call(instruction.row, operands));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i)
      expressions_.emplace_back(outputs[i], values[static_cast<std::size_t>(program.outputs[i])]);
  }

  // Booleans are 0 and 1 inside a program, 16-bit floats what they can hold.
  static Expression rounded(const Expression& x, DType dtype) {
    if (!is_narrow(dtype)) return x;
    return Expression::call(dtype == bf16 ? Row::round_to_bf16 : Row::round_to_f16, x);
  }

  // where(c, f(a), f(b)) as f(where(c, a, b)), for the same function f of an input and numbers: nullopt if it is none.
  static std::optional<Expression> chosen_first(const Expression& condition, const Expression& a, const Expression& b) {
    using Written = ProgramWriter::Node;
    const auto written = [](int id) { return ProgramWriter::current().nodes()[static_cast<std::size_t>(id)]; };
    const Written first = written(a.id()), second = written(b.id());
    if (first.kind != second.kind || first.row != second.row) return std::nullopt;
    if (first.kind == Written::input) return Expression::call(Row::where, condition, a, b);
    std::vector<Expression> operands;
    int chosen = 0;
    for (int k = 0; k < 3 && first.operands[k] >= 0; ++k) {
      const Expression x = Expression::of(first.operands[k]), z = Expression::of(second.operands[k]);
      if (x.id() == z.id() && written(x.id()).kind == Written::constant) {
        operands.push_back(x);
        continue;
      }
      const auto either = chosen_first(condition, x, z);
      if (!either || ++chosen > 1) return std::nullopt;
      operands.push_back(*either);
    }
    return chosen == 1 ? std::optional(call(first.row, operands)) : std::nullopt;
  }

  // A row of operands; a factor or divisor of 1 changes no bit.
  static Expression call(Row row, const std::vector<Expression>& x) {
    const int one = Expression(1).id();
    if ((row == Row::multiply || row == Row::divide) && x[1].id() == one) return x[0];
    if (row == Row::multiply && x[0].id() == one) return x[1];
    if (row == Row::where)
      if (const auto chosen = chosen_first(x[0], x[1], x[2])) return *chosen;
    switch (x.size()) {
      case 1: return Expression::call(row, x[0]);
      case 2: return Expression::call(row, x[0], x[1]);
      default: return Expression::call(row, x[0], x[1], x[2]);
    }
  }

  const Graph& graph_;
  const FusionGroups& groups_;
  const Members& members_;
  const Shape shape_;
  bool keep_shape_ = false;  // fills and broadcasts stay inputs, where nothing else gives the shape
  std::vector<ValueId> inputs_;
  std::vector<std::pair<ValueId, Expression>> expressions_;
};

}  // namespace

Graph fuse(Graph graph) {
  FusionGroups groups(graph);
  groups.merge_all([&](const Members& members) {
    return GroupWriter(graph, groups, members).write(groups.outputs_of(members)).has_value();
  });
  std::vector<Node> nodes;
  for (const Members& members : groups.in_order()) {
    const bool lone_cast = members.size() == 1 && is_op(graph.nodes[static_cast<std::size_t>(members[0])], cast_info());
    if (lone_cast || !groups.is_elementwise(members[0])) {
      nodes.push_back(graph.nodes[static_cast<std::size_t>(members[0])]);
      continue;
    }
    auto made = GroupWriter(graph, groups, members).write(groups.outputs_of(members));
    if (made)
      nodes.push_back(std::move(*made));
    else
      for (int member : members) nodes.push_back(graph.nodes[static_cast<std::size_t>(member)]);
  }
  graph.nodes = std::move(nodes);
  return prune(std::move(graph));
}

}  // namespace thalweg
