#include "thalweg/ops/pad/pad.h"

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/core/scalar.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg {
namespace {

struct ConstantPad {
  Ints before, after;
  Number value;
};
TW_FIELDS(ConstantPad, before, after, value)

Specs infer(const ConstantPad& op, Inputs in) {
  const Shape& shape = in[0].shape;
  require_whole("pad", op.value, in[0].dtype);
  Ints sizes;
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i] + op.before[i] + op.after[i]);
  return {Spec{in[0].dtype, Shape(sizes)}};
}

// Writes every place once: for each axis the two margins, inside the axes before it and across those after it; then x.
void run(const ConstantPad& op, Arrays in, Arrays out) {
  const Shape &inner = in[0].shape(), &outer = out[0].shape();
  const Ints strides = cpu::row_major_strides(outer), still(outer.rank(), 0);
  const std::int64_t bytes = size_of(in[0].dtype());
  const ScalarBytes value(op.value, in[0].dtype());
  auto* to = out[0].as<std::byte>();
  Ints sizes = outer;
  for (int i = 0; i < outer.rank(); ++i) {
    const std::int64_t step = strides[i] * bytes;
    sizes[i] = op.before[i];
    cpu::strided_copy(value.data(), still, to, strides, sizes, bytes);
    sizes[i] = op.after[i];
    cpu::strided_copy(value.data(), still, to + (op.before[i] + inner[i]) * step, strides, sizes, bytes);
    sizes[i] = inner[i];
    to += op.before[i] * step;
  }
  cpu::strided_copy(in[0].data, cpu::row_major_strides(inner), to, strides, inner, bytes);
}

Gradients gradient(const ConstantPad& op, const Kept& kept, const Tensors& dy, Needs) {
  return {slice(dy[0], op.before, kept.input_spec(0).shape)};
}

constexpr std::int64_t most_places = std::int64_t{1} << 59;  // as of a shape; sums of three cannot overflow

void check_paddings(const Tensor& x, const Paddings& paddings, PadMode mode) {
  TW_CHECK_USER(static_cast<int>(paddings.size()) == x.rank(), "pad", "give {before, after} for every axis",
                "expected {} pairs for {}, got {}", x.rank(), x.shape(), paddings.size());
  for (int i = 0; i < x.rank(); ++i) {
    const auto [before, after] = paddings[static_cast<std::size_t>(i)];
    TW_CHECK_USER(before >= 0 && after >= 0, "pad", "cut with tw::slice instead",
                  "expected paddings of 0 or more, got {} and {}", before, after);
    TW_CHECK_USER(std::max(before, after) <= most_places, "pad", "check the paddings; one of them is far too large",
                  "expected paddings of at most 2^59, got {} and {}", before, after);
    const std::int64_t most = x.shape()[i] - (mode == PadMode::reflect ? 1 : 0);
    TW_CHECK_USER(mode == PadMode::constant || std::max(before, after) <= std::max<std::int64_t>(most, 0), "pad",
                  "a mirror shows each place once: pad less, or several times",
                  "expected at most {} places on either side of axis {} of {}, got {} and {}", most, i, x.shape(),
                  before, after);
  }
}

// The mirror images of the places next to both edges, joined to x along one axis.
Tensor mirrored(const Tensor& x, int axis, std::int64_t before, std::int64_t after, std::int64_t skipped) {
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    Ints first(x.rank(), 0), size = x.shape();
    first[axis] = begin, size[axis] = count;
    return reverse(slice(x, first, size), axis);
  };
  std::vector<Tensor> parts;
  if (before > 0) parts.push_back(part(skipped, before));
  parts.push_back(x);
  if (after > 0) parts.push_back(part(x.shape()[axis] - skipped - after, after));
  return concat(parts, axis);
}

BatchStates batch_rule(const ConstantPad& op, Inputs in, BatchStates& states, std::int64_t examples) {
  Ints padded;
  for (int i = 0; i < in[0].rank(); ++i)
    if (op.before[i] + op.after[i] > 0) padded.push_back(i);
  return same_axes_rule(in, states, examples, padded);
}

ConstantPad lifted(const ConstantPad& op, Inputs, std::int64_t) {
  return {with_front(0, op.before), with_front(0, op.after), op.value};
}

}  // namespace

TW_DEFINE_OP(pad, ConstantPad)

Tensor pad(const Tensor& x, const Paddings& paddings, const Pad& options) {
  check_defined("pad", x);
  check_paddings(x, paddings, options.mode);
  if (options.mode == PadMode::constant) {
    ConstantPad op{.before = {}, .after = {}, .value = options.value};
    for (const auto& [before, after] : paddings) op.before.push_back(before), op.after.push_back(after);
    return apply(pad_info(), op, {x})[0];
  }
  Tensor y = x;
  for (int i = 0; i < x.rank(); ++i) {
    const auto [before, after] = paddings[static_cast<std::size_t>(i)];
    if (before + after > 0) y = mirrored(y, i, before, after, options.mode == PadMode::reflect ? 1 : 0);
  }
  return y;
}

}  // namespace thalweg
