#include "thalweg/ops/concat/concat.h"

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg {
namespace {

struct Concat {
  int axis;
  Ints perm;  // the axes of the joined tensor in the order of the result's; empty: as they are
};
TW_FIELDS(Concat, axis, perm)

Shape transposed(const Concat& op, const Shape& joined) {
  if (op.perm.empty()) return joined;
  Ints sizes;
  for (const std::int64_t axis : op.perm) sizes.push_back(joined[static_cast<int>(axis)]);
  return Shape(sizes);
}

Ints inverse_of(const Ints& perm) {
  Ints inverse = perm;
  for (int i = 0; i < perm.size(); ++i) inverse[static_cast<int>(perm[i])] = i;
  return inverse;
}

Specs infer(const Concat& op, Inputs in) {
  const Spec& first = in[0];
  std::int64_t total = first.shape[op.axis];
  for (int i = 1; i < in.size(); ++i) {
    TW_CHECK_USER(in[i].dtype == first.dtype, "concat", "cast the tensors to one dtype first",
                  "expected {} as in tensor 0, got {} in tensor {}", first.dtype, in[i].dtype, i);
    TW_CHECK_USER(in[i].rank() == first.rank() && in[i].shape.with(op.axis, 0) == first.shape.with(op.axis, 0),
                  "concat", "sizes may differ along the axis of concatenation alone",
                  "expected the sizes of tensor 0, {}, but for axis {}, got {} in tensor {}", first.shape, op.axis,
                  in[i].shape, i);
    total += in[i].shape[op.axis];
  }
  return {Spec{first.dtype, transposed(op, first.shape.with(op.axis, total))}};
}

std::int64_t alias(const Concat& op, Inputs in) { return in.size() == 1 && op.perm.empty() ? 0 : -1; }

void run(const Concat& op, Arrays in, Arrays out) {
  Ints strides = cpu::row_major_strides(out[0].shape());  // of the joined axes
  if (!op.perm.empty()) {
    const Ints places = strides;
    for (int i = 0; i < op.perm.size(); ++i) strides[static_cast<int>(op.perm[i])] = places[i];
  }
  const std::int64_t bytes = size_of(out[0].dtype());
  auto* to = out[0].as<std::byte>();
  for (const Array& part : in) {
    cpu::strided_copy(part.data, cpu::row_major_strides(part.shape()), to, strides, part.shape(), bytes);
    to += part.shape()[op.axis] * strides[op.axis] * bytes;
  }
}

// Leading slices are views, and one slice needs no other; otherwise one pass over dy cuts all.
Gradients gradient(const Concat& op, const Kept& kept, const Tensors& dy, Needs needs) {
  const Tensor joined = op.perm.empty() ? dy[0] : transpose(dy[0], inverse_of(op.perm));
  const Shape& whole = joined.shape();
  int wanted = 0;
  for (int i = 0; i < kept.inputs(); ++i) wanted += needs[static_cast<std::size_t>(i)];
  const bool by_slices = wanted == 1 || whole.product(0, op.axis) == 1;
  std::vector<std::int64_t> sizes;
  Ints begin(whole.rank(), 0);
  Gradients gradients;
  for (int i = 0; i < kept.inputs(); ++i) {
    const Shape& shape = kept.input_spec(i).shape;
    sizes.push_back(shape[op.axis]);
    gradients.push_back(by_slices && needs[static_cast<std::size_t>(i)] ? slice(joined, begin, shape) : Tensor());
    begin[op.axis] += shape[op.axis];
  }
  if (by_slices) return gradients;
  const auto parts = split(joined, sizes, op.axis);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (needs[i]) gradients[i] = parts[i];
  return gradients;
}

BatchStates batch_rule(const Concat& op, Inputs in, BatchStates& states, std::int64_t examples) {
  Ints names = first_axes(in[0].rank()), result;
  names[op.axis] = mixed;
  for (const std::int64_t axis : op.perm) result.push_back(names[static_cast<int>(axis)]);
  return named_axes_rule(in, states, examples, AxisNames(static_cast<std::size_t>(in.size()), names),
                         {op.perm.empty() ? names : result});
}

Concat lifted(const Concat& op, Inputs, std::int64_t) {
  return {op.axis + 1, op.perm.empty() ? op.perm : with_front(0, shifted_axes(op.perm))};
}

}  // namespace

TW_DEFINE_OP(concat, Concat)

Tensor concat(const std::vector<Tensor>& list, std::int64_t axis) {
  TW_CHECK_USER(!list.empty(), "concat", "pass the tensors to join", "expected at least one tensor, got an empty list");
  check_all_defined("concat", list);
  TW_CHECK_USER(list[0].rank() > 0, "concat", "use tw::stack to join scalars",
                "expected tensors of rank 1 or more, got a scalar");
  const Concat op{resolve_axis("concat", axis, list[0].rank()), {}};
  return apply(concat_info(), &op, list)[0];
}

Tensor concat_transposed(const std::vector<Tensor>& list, int axis, const Ints& perm) {
  const Concat op{axis, perm};
  return apply(concat_info(), &op, list)[0];
}

Tensor stack(const std::vector<Tensor>& list, std::int64_t axis) {
  TW_CHECK_USER(!list.empty(), "stack", "pass the tensors to stack", "expected at least one tensor, got an empty list");
  check_all_defined("stack", list);
  const int place = resolve_axis("stack", axis, list[0].rank() + 1);
  std::vector<Tensor> slices;
  for (const auto& tensor : list) {
    TW_CHECK_USER(tensor.spec() == list[0].spec(), "stack",
                  "stack tensors of one shape and dtype; tw::concat joins along an axis",
                  "expected {} {} as in tensor 0, got {} {} in tensor {}", list[0].shape(), list[0].dtype(),
                  tensor.shape(), tensor.dtype(), slices.size());
    slices.push_back(expand_dims(tensor, place));
  }
  return concat(slices, place);
}

}  // namespace thalweg
