#include "thalweg/plan/early_slopes.h"

#include <algorithm>
#include <optional>

#include "thalweg/graph/passes/fusion_groups.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/expression.h"
#include "thalweg/ops/fused/fused_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

bool is_heavy(const Program& program) {
  return std::ranges::any_of(program.instructions, [](const Instruction& i) { return !is_light(i.row); });
}

// What a program makes of one of its inputs alone before it looks at any other.
class Slope {
 public:
  // None: there is no such value, or the input is needed besides it, or it is cheap.
  static std::optional<Slope> find(const Program& program, int input) {
    Slope slope(program, input);
    return slope.is_number() && slope.is_heavy_ ? std::optional(std::move(slope)) : std::nullopt;
  }

  // The program that made the input as its output `place`, with the slope in that place.
  std::optional<Program> after(const Program& maker, std::size_t place) const {
    const ProgramWriter writer(maker.inputs);
    std::vector<Expression> made = operands_of(maker);
    for (std::size_t i = 0; i < maker.instructions.size(); ++i) made.push_back(call(maker.instructions[i], made));
    std::vector<Expression> values = operands_of(program_);
    values[static_cast<std::size_t>(input_)] = made[static_cast<std::size_t>(maker.outputs[place])];
    write_part(values, true);
    std::vector<int> roots;
    for (int output : maker.outputs) roots.push_back(made[static_cast<std::size_t>(output)].id());
    roots[place] = values[static_cast<std::size_t>(operand_)].id();
    return finished(writer, roots, maker.inputs);
  }

  // The program with the slope as its input.
  std::optional<Program> rest() const {
    const ProgramWriter writer(program_.inputs);
    std::vector<Expression> values = operands_of(program_);
    write_part(values, false);
    std::vector<int> roots;
    for (int output : program_.outputs) roots.push_back(values[static_cast<std::size_t>(output)].id());
    return finished(writer, roots, program_.inputs);
  }

 private:
  Slope(const Program& program, int input) : program_(program), input_(input) {
    for (int operand = 0; operand < program.first_result(); ++operand)
      is_of_input_.push_back(operand == input || operand >= program.inputs);
    for (const Instruction& instruction : program.instructions) {
      is_of_input_.push_back(std::ranges::all_of(instruction.operands, [&](int operand) { return is_part(operand); }));
      if (is_of_input_.back())
        is_heavy_ |= !is_light(instruction.row);
      else
        for (int operand : instruction.operands) note_use(operand);
    }
    for (int output : program.outputs) note_use(output);
  }

  // Computed, and no condition.
  bool is_number() const {
    if (operand_ < program_.first_result()) return false;
    const Row row = program_.instructions[static_cast<std::size_t>(operand_ - program_.first_result())].row;
    return row_info(row).kind == RowKind::real || row_info(row).kind == RowKind::numeric;
  }

  bool is_part(int operand) const { return operand < 0 || is_of_input_[static_cast<std::size_t>(operand)]; }
  bool is_constant(int operand) const { return operand >= program_.inputs && operand < program_.first_result(); }

  // By what is no part of it. A second value of the input alone would be kept as well.
  void note_use(int operand) {
    constexpr int several = -2;
    if (operand < 0 || is_constant(operand) || !is_part(operand) || operand == operand_) return;
    operand_ = operand_ == none ? operand : several;
  }

  static std::vector<Expression> operands_of(const Program& program) {
    std::vector<Expression> operands;
    for (int i = 0; i < program.inputs; ++i) operands.push_back(Expression::input(i));
    for (double constant : program.constants) operands.emplace_back(constant);
    return operands;
  }

  static Expression call(const Instruction& instruction, const std::vector<Expression>& values) {
    const auto x = [&](int k) { return values[static_cast<std::size_t>(instruction.operands[k])]; };
    if (instruction.operands[1] < 0) return Expression::call(instruction.row, x(0));
    if (instruction.operands[2] < 0) return Expression::call(instruction.row, x(0), x(1));
    return Expression::call(instruction.row, x(0), x(1), x(2));
  }

  // The instructions up to the slope, or those behind it, for which it is the input.
  void write_part(std::vector<Expression>& values, bool is_slope) const {
    for (const Instruction& instruction : program_.instructions) {
      const auto operand = static_cast<int>(values.size());
      if (is_part(operand) == is_slope)
        values.push_back(call(instruction, values));
      else
        values.push_back(operand == operand_ ? Expression::input(input_) : Expression::none());
    }
  }

  // None: it is longer than programs may be, or one of the inputs has no use any more.
  static std::optional<Program> finished(const ProgramWriter& writer, const std::vector<int>& roots, int inputs) {
    std::vector<int> used;
    Program program = writer.finish(roots, used);
    const int operands = program.first_result() + static_cast<int>(program.instructions.size());
    const bool fits = program.inputs == inputs && operands <= max_program_operands && !program.instructions.empty();
    return fits ? std::optional(std::move(program)) : std::nullopt;
  }

  static constexpr int none = -1;
  const Program& program_;
  int input_, operand_ = none;
  std::vector<bool> is_of_input_;  // by operand: made of the input and constants
  bool is_heavy_ = false;
};

void set_program(Node& node, Program program) {
  node.op = make_fused(std::move(program), fused_of(node.op.get()).dtypes);
}

}  // namespace

Graph take_slopes_early(Graph graph) {
  const std::vector<int> makers = producers(graph), reads = count_reads(graph);
  // f32 and f64 are what programs compute in; those that read or make another type may compute in that.
  const auto computes_in = [&](const Node& node, DType dtype) {
    const auto has = [&](ValueId value) { return graph.spec(value).dtype == dtype; };
    return (dtype == f32 || dtype == f64) && std::ranges::all_of(node.inputs, has) &&
           std::ranges::all_of(node.outputs, has);
  };
  // What made the value, if no other node reads it.
  const auto maker_of = [&](ValueId value, DType dtype) {
    const int maker = reads[static_cast<std::size_t>(value)] == 1 ? makers[static_cast<std::size_t>(value)] : -1;
    Node* node = maker < 0 ? nullptr : &graph.nodes[static_cast<std::size_t>(maker)];
    const bool takes = node && is_op(*node, fused_info()) && computes_in(*node, dtype);
    return takes && is_heavy(program_of(node->op.get())) ? node : nullptr;
  };
  for (Node& node : graph.nodes) {
    if (!is_op(node, fused_info())) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId value = node.inputs[i];
      const DType dtype = graph.spec(value).dtype;
      Node* maker = computes_in(node, dtype) ? maker_of(value, dtype) : nullptr;
      if (!maker) continue;
      const auto slope = Slope::find(program_of(node.op.get()), static_cast<int>(i));
      if (!slope) continue;
      const auto place = std::ranges::find(maker->outputs, value) - maker->outputs.begin();
      auto made = slope->after(program_of(maker->op.get()), static_cast<std::size_t>(place));
      auto rest = slope->rest();
      if (!made || !rest) continue;
      set_program(*maker, std::move(*made));
      set_program(node, std::move(*rest));
    }
  }
  return graph;
}

}  // namespace thalweg
