#include "thalweg/ops/fused/fused_each.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/fused/fused_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

struct FusedEach {
  FusedProgram fused;
  std::int64_t sets = 1;

  int inputs() const { return fused.program->inputs; }
  std::size_t outputs() const { return fused.program->outputs.size(); }
};

void visit_op(FusedEach& op, FieldVisitor& visitor) {
  visitor.integer("sets", op.sets);
  visit_fused(op.fused, visitor);
}

// The kernel takes what an input is (its dtype, one element or as many as the outputs have) from one set for all.
class SetsAlike {
 public:
  explicit SetsAlike(int inputs) : forms_(static_cast<std::size_t>(inputs)) {}

  void add(std::span<const Spec* const> set, const Spec& made) {
    for (std::size_t i = 0; i < set.size(); ++i) {
      Form& form = forms_[i];
      const bool one = set[i]->size() == 1;
      if (!form.known) form = {true, set[i]->dtype, one, made.size() == 1};
      const bool fits = (one || set[i]->shape == made.shape) && set[i]->dtype == form.dtype;
      const bool alike = one == form.one || made.size() == 1 || form.any_form;
      TW_CHECK_INTERNAL(fits && alike, "fused_each", "{} {} is not of the form that input {} has in the other sets",
                        set[i]->dtype, set[i]->shape, i);
      if (form.any_form && made.size() != 1) form.one = one, form.any_form = false;
    }
  }

 private:
  struct Form {
    bool known = false;
    DType dtype = f32;
    bool one = false;
    bool any_form = false;  // the outputs have one element themselves
  };
  std::vector<Form> forms_;
};

Specs infer(const FusedEach& op, Inputs in) {
  TW_CHECK_INTERNAL(op.sets > 0 && op.inputs() > 0 && in.size() == op.sets * op.inputs(), "fused_each",
                    "expected {} sets of {} inputs, got {}", op.sets, op.inputs(), in.size());
  Specs all;
  SetsAlike forms(op.inputs());
  SmallVector<const Spec*, 8> set;
  for (int i = 0; i < in.size(); ++i) {
    set.push_back(&in[i]);
    if (static_cast<int>(set.size()) < op.inputs()) continue;
    const Specs made = infer_fused(op.fused, Inputs({set.data(), set.size()}));
    forms.add({set.data(), set.size()}, made[0]);
    for (const Spec& spec : made) all.push_back(spec);
    set.clear();
  }
  return all;
}

void run(const FusedEach& op, Arrays in, Arrays out) {
  if (!op.fused.branches) return run_program_on_each(*op.fused.program, in, out, op.sets);
  const auto inputs = static_cast<std::size_t>(op.inputs());
  for (std::size_t set = 0; set < static_cast<std::size_t>(op.sets); ++set)
    run_fused(op.fused, in.subspan(set * inputs, inputs), out.subspan(set * op.outputs(), op.outputs()));
}

Tensors reference(const FusedEach& op, const Tensors& in) {
  Tensors all;
  for (std::int64_t set = 0; set < op.sets; ++set) {
    const auto first = in.begin() + static_cast<std::ptrdiff_t>(set * op.inputs());
    Tensors operands;
    for (auto input = first; input != first + op.inputs(); ++input) operands.push_back(*input);
    for (const Tensor& made : run_as_ops(*op.fused.program, operands)) all.push_back(made);
  }
  return all;
}

}  // namespace

TW_DEFINE_OP(fused_each, FusedEach)

std::shared_ptr<const void> make_fused_each(const void* fused, std::int64_t sets) {
  return std::make_shared<const FusedEach>(FusedEach{fused_of(fused), sets});
}

bool same_program(const void* fused, const void* other) {
  const FusedProgram &a = fused_of(fused), &b = fused_of(other);
  return a.program == b.program ||
         (a.program->inputs == b.program->inputs && a.program->constants == b.program->constants &&
          a.program->instructions == b.program->instructions && a.program->outputs == b.program->outputs &&
          std::ranges::equal(a.dtypes, b.dtypes));
}

}  // namespace thalweg
