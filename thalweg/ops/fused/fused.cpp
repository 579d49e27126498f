// A whole elementwise program as one op: the backward pass of a row, and later any fused group.
#include <sstream>

#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/broadcast.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

struct Fused {
  std::shared_ptr<const Program> program = std::make_shared<const Program>();
  Ints dtypes = {};  // of the outputs; none: all have that of the float inputs
};

// A program as lists. Rows go by their names, which outlast their numbers.
struct ProgramLists {
  std::int64_t inputs;
  std::vector<double> constants;
  std::string rows;                             // one name for each instruction, with a space between
  std::vector<std::int64_t> operands, outputs;  // three operands for each instruction
  friend bool operator==(const ProgramLists&, const ProgramLists&) = default;
};

ProgramLists as_lists(const Program& program) {
  ProgramLists lists{program.inputs, program.constants, {}, {}, {program.outputs.begin(), program.outputs.end()}};
  for (const auto& [row, operands] : program.instructions) {
    lists.rows += (lists.rows.empty() ? "" : " ") + std::string(row_info(row).name);
    lists.operands.insert(lists.operands.end(), operands, operands + 3);
  }
  return lists;
}

void check_program(bool condition, const char* what) {
  TW_CHECK_USER(condition, "fused", "the program is damaged, or was written by another version", "expected {}", what);
}

// An operand number below `count`.
int checked_operand(std::int64_t operand, std::size_t count) {
  check_program(operand >= 0 && operand < static_cast<std::int64_t>(count), "operands that come before their use");
  return static_cast<int>(operand);
}

Program from_lists(const ProgramLists& lists) {
  check_program(lists.inputs >= 0 && lists.inputs < 1 << 20, "a number of inputs");
  Program program{static_cast<int>(lists.inputs), lists.constants, {}, {}};
  std::istringstream names(lists.rows);
  std::size_t known = static_cast<std::size_t>(program.first_result()), at = 0;
  for (std::string name; names >> name; ++known, at += 3) {
    const RowInfo* row = find_row(name);
    check_program(row != nullptr && at + 3 <= lists.operands.size(), "known rows with three operands each");
    Instruction instruction{row->row, {-1, -1, -1}};
    for (std::size_t k = 0; k < static_cast<std::size_t>(row->arity); ++k)
      instruction.operands[k] = checked_operand(lists.operands[at + k], known);
    program.instructions.push_back(instruction);
  }
  check_program(at == lists.operands.size(), "three operands for each row");
  for (std::int64_t output : lists.outputs) program.outputs.push_back(checked_operand(output, known));
  return program;
}

void visit_op(Fused& op, FieldVisitor& visitor) {
  const ProgramLists before = as_lists(*op.program);
  ProgramLists lists = before;
  visitor.integer("inputs", lists.inputs);
  visitor.reals("constants", lists.constants);
  visitor.text("rows", lists.rows);
  visitor.integers("operands", lists.operands);
  visitor.integers("outputs", lists.outputs);
  detail::visit_field(visitor, "dtypes", op.dtypes);
  if (!(lists == before)) op.program = std::make_shared<const Program>(from_lists(lists));
}

Specs infer(const Fused& op, Inputs in) {
  TW_CHECK_INTERNAL(in.size() == op.program->inputs && in.size() > 0, "fused", "expected {} inputs, got {}",
                    op.program->inputs, in.size());
  const Shape shape = broadcast_shapes("fused", in);
  DType dtype = in[0].dtype;
  for (int i = 1; i < in.size() && !is_float(dtype); ++i) dtype = in[i].dtype;
  Specs specs(op.program->outputs.size(), Spec{dtype, shape});
  for (int i = 0; i < op.dtypes.size(); ++i)
    specs[static_cast<std::size_t>(i)].dtype = static_cast<DType>(op.dtypes[i]);
  return specs;
}

[[maybe_unused]] bool in_place(const Fused&) { return true; }

void run(const Fused& op, Arrays in, Arrays out) { run_program(*op.program, in, out); }

Tensors reference(const Fused& op, const Tensors& in) { return run_as_ops(*op.program, in); }

BatchStates batch_rule(const Fused& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return broadcast_rule(in, states, examples, static_cast<int>(op.program->outputs.size()));
}

}  // namespace

TW_DEFINE_OP(fused, Fused)

const Program& program_of(const void* fused) { return *static_cast<const Fused*>(fused)->program; }

std::shared_ptr<const void> make_fused(Program program, const Ints& dtypes) {
  return std::make_shared<const Fused>(Fused{std::make_shared<const Program>(std::move(program)), dtypes});
}

Tensors run_fused(const Program& program, const Tensors& inputs) {
  return run_fused(std::shared_ptr<const Program>(std::shared_ptr<void>(), &program), inputs);
}

Tensors run_fused(std::shared_ptr<const Program> program, const Tensors& inputs) {
  // An output that is an input needs no copy; the rest is one pass.
  Tensors result;
  bool all_inputs = true;
  for (int output : program->outputs) {
    all_inputs &= output < program->inputs;
    if (output < program->inputs) result.push_back(inputs[static_cast<std::size_t>(output)]);
  }
  if (all_inputs) return result;
  const Fused op{std::move(program), {}};
  return apply(fused_info(), static_cast<const void*>(&op), {inputs.data(), inputs.size()});
}

Tensors run_as_ops(const Program& program, const Tensors& in) {
  Tensors values = in;
  const DType dtype = in[0].dtype();
  for (double constant : program.constants) values.push_back(scalar(constant, dtype));
  for (const auto& instruction : program.instructions) {
    Tensors operands;
    for (int operand : instruction.operands)
      if (operand >= 0) operands.push_back(values[static_cast<std::size_t>(operand)]);
    values.push_back(call_row(instruction.row, {operands.data(), operands.size()}));
  }
  Tensors outputs;
  for (int output : program.outputs) outputs.push_back(values[static_cast<std::size_t>(output)]);
  return outputs;
}

}  // namespace thalweg
