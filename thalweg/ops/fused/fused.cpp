// A whole elementwise program as one op: the backward pass of a row, and later any fused group.
#include "thalweg/ops/broadcast.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

struct Fused {
  const Program* program;
};

Specs infer(const Fused& op, Inputs in) {
  const Shape shape = broadcast_shapes("fused", in);
  DType dtype = in[0].dtype;
  for (int i = 1; i < in.size() && !is_float(dtype); ++i) dtype = in[i].dtype;
  return Specs(op.program->outputs.size(), Spec{dtype, shape});
}

void run(const Fused& op, Arrays in, Arrays out) { run_program(*op.program, in, out); }

Tensors reference(const Fused& op, const Tensors& in) { return run_as_ops(*op.program, in); }

}  // namespace

TW_DEFINE_OP(fused, Fused)

Tensors run_fused(const Program& program, const Tensors& inputs) {
  // An output that is an input needs no copy; the rest is one pass.
  Tensors result;
  bool all_inputs = true;
  for (int output : program.outputs) {
    all_inputs &= output < program.inputs;
    if (output < program.inputs) result.push_back(inputs[static_cast<std::size_t>(output)]);
  }
  if (all_inputs) return result;
  const Fused op{&program};
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
