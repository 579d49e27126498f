#include "thalweg/ops/fused/fused_reduce.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/broadcast.h"
#include "thalweg/ops/fused/program_fields.h"
#include "thalweg/ops/reduce/reduce_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

struct FusedReduce {
  std::shared_ptr<const Program> program = std::make_shared<const Program>();
  const OpInfo* reduction = &reduce_sum_info();
  std::shared_ptr<const void> attributes = reduction->make();
};

void visit_op(FusedReduce& op, FieldVisitor& visitor) {
  visit_program(op.program, visitor);
  std::string name = op.reduction->name;
  visitor.text("reduction", name);
  if (name != op.reduction->name) {
    op.reduction = find_op(name);
    TW_CHECK_USER(op.reduction && is_reduction(*op.reduction), "fused_reduce", "the program is damaged",
                  "expected a reduction, got \"{}\"", name);
    op.attributes = op.reduction->make();
  }
  op.reduction->visit(const_cast<void*>(op.attributes.get()), visitor);
}

// What the program makes, in the type that it computes in: f32 where it makes numbers of bytes and booleans alone.
Spec elements(Inputs in) {
  Spec result{in[0].dtype, broadcast_shapes("fused_reduce", in)};
  for (int i = 1; i < in.size() && !is_float(result.dtype); ++i) result.dtype = in[i].dtype;
  const bool made_of_bytes = result.dtype == u8 || result.dtype == boolean;
  result.dtype = made_of_bytes ? f32 : wide(result.dtype);
  return result;
}

Specs infer(const FusedReduce& op, Inputs in) {
  TW_CHECK_INTERNAL(in.size() == op.program->inputs && in.size() > 0 && op.program->outputs.size() == 1, "fused_reduce",
                    "expected {} inputs and one output, got {} and {}", op.program->inputs, in.size(),
                    op.program->outputs.size());
  const Spec made = elements(in);
  TW_CHECK_INTERNAL(made.dtype == f32 || made.dtype == f64, "fused_reduce", "cannot compute in {}", made.dtype);
  const Spec* list[] = {&made};
  return op.reduction->infer(op.attributes.get(), Inputs(list));
}

std::int64_t workspace(const FusedReduce& op, Inputs in) {
  const Spec made = elements(in);
  return cpu::reduce_workspace(reduction_of(*op.reduction, op.attributes.get(), made.rank()), made);
}

void run(const FusedReduce& op, Arrays in, Arrays out, Scratch scratch) {
  SmallVector<const Spec*, 4> specs;
  for (const auto& array : in) specs.push_back(array.spec);
  const Spec made = elements(Inputs({specs.data(), specs.size()}));
  const cpu::Reduction reduction = reduction_of(*op.reduction, op.attributes.get(), made.rank());
  with_program(*op.program, in, made,
               [&](ReadElements read) { cpu::reduce(reduction, made, read, out[0], scratch.data()); });
}

Tensors reference(const FusedReduce& op, const Tensors& in) {
  const Tensor made = run_as_ops(*op.program, in)[0];
  return apply(*op.reduction, op.attributes.get(), {&made, 1});
}

BatchStates batch_rule(const FusedReduce& op, Inputs in, BatchStates& states, std::int64_t examples) {
  BatchStates made = broadcast_rule(in, states, examples);
  if (!made[0].is_rows()) return made;
  const Spec spec = elements(in);
  const Spec* list[] = {&spec};
  return op.reduction->batch_rule(op.attributes.get(), Inputs(list), made, examples);
}

}  // namespace

TW_DEFINE_OP(fused_reduce, FusedReduce)

std::shared_ptr<const void> make_fused_reduce(std::shared_ptr<const Program> program, const OpInfo& reduction,
                                              std::shared_ptr<const void> attributes) {
  return std::make_shared<const FusedReduce>(FusedReduce{std::move(program), &reduction, std::move(attributes)});
}

bool adds_squares(const void* fused_reduce) {
  const auto& op = *static_cast<const FusedReduce*>(fused_reduce);
  const Program squares{1, {}, {{Row::square, {0, -1, -1}}}, {1}};
  return op.reduction == &reduce_sum_info() && op.program->inputs == 1 &&
         op.program->instructions == squares.instructions && op.program->outputs == squares.outputs;
}

}  // namespace thalweg
