// A whole elementwise program as one op: the backward pass of a row, and later any fused group.
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/broadcast.h"
#include "thalweg/ops/fused/fused_op.h"
#include "thalweg/ops/fused/program_fields.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
void visit_fused(FusedProgram& op, FieldVisitor& visitor) {
  const auto before = op.program;
  visit_program(op.program, visitor);
  if (op.program != before) op.branches = branches_of(*op.program);
  detail::visit_field(visitor, "dtypes", op.dtypes);
}

Specs infer_fused(const FusedProgram& op, Inputs in) {
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

void run_fused(const FusedProgram& op, Arrays in, Arrays out) {
  if (!op.branches || !run_branch(*op.branches, in, out)) run_program(*op.program, in, out);
}

namespace {

struct Fused : FusedProgram {};

void visit_op(Fused& op, FieldVisitor& visitor) { visit_fused(op, visitor); }

Specs infer(const Fused& op, Inputs in) { return infer_fused(op, in); }

[[maybe_unused]] bool in_place(const Fused&) { return true; }

void run(const Fused& op, Arrays in, Arrays out) { run_fused(op, in, out); }

Tensors reference(const Fused& op, const Tensors& in) { return run_as_ops(*op.program, in); }

BatchStates batch_rule(const Fused& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return broadcast_rule(in, states, examples, static_cast<int>(op.program->outputs.size()));
}

}  // namespace

TW_DEFINE_OP(fused, Fused)

const FusedProgram& fused_of(const void* op) { return *static_cast<const Fused*>(op); }

const Program& program_of(const void* fused) { return *fused_of(fused).program; }

std::shared_ptr<const void> make_fused(Program program, const Ints& dtypes) {
  auto branches = branches_of(program);
  return std::make_shared<const Fused>(
      Fused{{std::make_shared<const Program>(std::move(program)), dtypes, std::move(branches)}});
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
  const Fused op{{std::move(program)}};
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
