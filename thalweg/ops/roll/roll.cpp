#include "thalweg/ops/roll/roll.h"

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Roll {
  std::int64_t shift;  // 0 or more, below the axis' size
  int axis;
};
TW_FIELDS(Roll, shift, axis)

Specs infer(const Roll&, Inputs in) { return {in[0]}; }

std::int64_t alias(const Roll& op, Inputs) { return op.shift == 0 ? 0 : -1; }

// The first size - shift places move to the end, the rest to the front.
void run(const Roll& op, Arrays in, Arrays out) {
  const Ints strides = cpu::row_major_strides(in[0].shape());
  const std::int64_t bytes = size_of(in[0].dtype()), step = strides[op.axis] * bytes;
  const std::int64_t cut = in[0].shape()[op.axis] - op.shift;
  const auto* from = in[0].as<const std::byte>();
  auto* to = out[0].as<std::byte>();
  Ints sizes = in[0].shape();
  sizes[op.axis] = cut;
  cpu::strided_copy(from, strides, to + op.shift * step, strides, sizes, bytes);
  sizes[op.axis] = op.shift;
  cpu::strided_copy(from + cut * step, strides, to, strides, sizes, bytes);
}

Gradients gradient(const Roll& op, const Kept&, const Tensors& dy, Needs) { return {roll(dy[0], -op.shift, op.axis)}; }

BatchStates batch_rule(const Roll& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return same_axes_rule(in, states, examples, op.shift == 0 ? Ints() : Ints{op.axis});
}

}  // namespace

TW_DEFINE_OP(roll, Roll)

Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis) {
  const int place = resolve_axis("roll", axis, x.rank());
  const std::int64_t size = std::max<std::int64_t>(x.shape()[place], 1);
  return apply(roll_info(), Roll{(shift % size + size) % size, place}, {x})[0];
}

Tensor roll(const Tensor& x, const Ints& shifts, const Ints& axes) {
  TW_CHECK_USER(shifts.size() == axes.size(), "roll", "give one shift per axis",
                "expected as many shifts as axes, got {} and {}", shifts, axes);
  Tensor y = x;
  for (int i = 0; i < axes.size(); ++i) y = roll(y, shifts[i], axes[i]);
  return y;
}

}  // namespace thalweg
