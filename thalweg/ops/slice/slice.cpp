#include "thalweg/ops/slice/slice.h"

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/pad/pad.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Slice {
  Ints begin, size;
};
TW_FIELDS(Slice, begin, size)

Specs infer(const Slice& op, Inputs in) {
  const Shape& shape = in[0].shape;
  TW_CHECK_USER(op.begin.size() == shape.rank() && op.size.size() == shape.rank(), "slice",
                "give a begin and a size for every axis", "expected {} begins and sizes for {}, got {} and {}",
                shape.rank(), shape, op.begin, op.size);
  for (int i = 0; i < shape.rank(); ++i)
    TW_CHECK_USER(
        op.begin[i] >= 0 && op.size[i] >= 0 && op.begin[i] <= shape[i] && op.size[i] <= shape[i] - op.begin[i], "slice",
        "begin and begin + size lie between 0 and the axis' size; a size of -1 reaches the end",
        "axis {} of {} has {} places, expected a part of them, got begin {} and size {}", i, shape, shape[i],
        op.begin[i], op.size[i]);
  return {Spec{in[0].dtype, Shape(op.size)}};
}

std::int64_t byte_offset(const Slice& op, const Spec& x) {
  const Ints strides = cpu::row_major_strides(x.shape);
  std::int64_t offset = 0;
  for (int i = 0; i < x.rank(); ++i) offset += op.begin[i] * strides[i];
  return offset * size_of(x.dtype);
}

// A slice is one stretch of memory when whole axes follow its first cut one, and single places come before it.
std::int64_t alias(const Slice& op, Inputs in) {
  const Shape& shape = in[0].shape;
  int i = 0;
  while (i < shape.rank() && op.size[i] == 1) ++i;
  for (++i; i < shape.rank(); ++i)
    if (op.size[i] != shape[i]) return -1;
  return byte_offset(op, in[0]);
}

void run(const Slice& op, Arrays in, Arrays out) {
  cpu::strided_copy(in[0].as<const std::byte>() + byte_offset(op, *in[0].spec), cpu::row_major_strides(in[0].shape()),
                    out[0].data, cpu::row_major_strides(out[0].shape()), out[0].shape(), size_of(in[0].dtype()));
}

Gradients gradient(const Slice& op, const Kept& kept, const Tensors& dy, Needs) {
  const Shape& shape = kept.input_spec(0).shape;
  Paddings paddings;
  for (int i = 0; i < shape.rank(); ++i) paddings.push_back({op.begin[i], shape[i] - op.begin[i] - op.size[i]});
  return {pad(dy[0], paddings)};
}

BatchStates batch_rule(const Slice& op, Inputs in, BatchStates& states, std::int64_t examples) {
  Ints cut;
  for (int i = 0; i < in[0].rank(); ++i)
    if (op.size[i] != in[0].shape[i]) cut.push_back(i);
  return same_axes_rule(in, states, examples, cut);
}

Slice with_batch(const Slice& op, const BatchState& out, std::int64_t examples) {
  return {op.begin, resized_batch(Shape(op.size), out, examples)};
}

Slice lifted(const Slice& op, Inputs, std::int64_t entries) {
  return {with_front(0, op.begin), with_front(entries, op.size)};
}

}  // namespace

TW_DEFINE_OP(slice, Slice)

Tensor slice(const Tensor& x, const Ints& begin, const Ints& size) {
  check_defined("slice", x);
  Slice op{begin, size};
  for (int i = 0; i < std::min({x.rank(), begin.size(), size.size()}); ++i)
    if (size[i] == -1) op.size[i] = x.shape()[i] - begin[i];
  return apply(slice_info(), op, {x})[0];
}

}  // namespace thalweg
