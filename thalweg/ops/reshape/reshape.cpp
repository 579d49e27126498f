#include "thalweg/ops/reshape/reshape.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Reshape {
  Shape shape;
};
TW_FIELDS(Reshape, shape)

Shape resolve_shape(const Shape& from, const Ints& sizes) {
  Ints resolved = sizes;
  int unknown = -1;
  for (int i = 0; i < sizes.size(); ++i) {
    TW_CHECK_USER(sizes[i] >= -1, "reshape", "sizes are 0 or more; one may be -1 and is then found",
                  "expected sizes of at least -1, got {}", sizes);
    TW_CHECK_USER(sizes[i] != -1 || unknown < 0, "reshape", "give all sizes but one",
                  "expected at most one size of -1, got {}", sizes);
    if (sizes[i] == -1) unknown = i, resolved[i] = 1;
  }
  const Shape known(resolved);
  if (unknown < 0) return known;
  TW_CHECK_USER(known.size() != 0 && from.size() % known.size() == 0, "reshape",
                "the known sizes must divide the number of elements",
                "expected sizes that divide the {} elements of {}, got {}", from.size(), from, sizes);
  return known.with(unknown, from.size() / known.size());
}

Specs infer(const Reshape& op, Inputs in) {
  TW_CHECK_USER(op.shape.size() == in[0].size(), "reshape", "the sizes must multiply to the number of elements",
                "expected {} elements as in {}, got {} in {}", in[0].size(), in[0].shape, op.shape.size(), op.shape);
  return {Spec{in[0].dtype, op.shape}};
}

std::int64_t alias(const Reshape&, Inputs) { return 0; }

void run(const Reshape&, Arrays, Arrays) {}

Gradients gradient(const Reshape&, const Kept& kept, const Tensors& dy, Needs) {
  return {reshape(dy[0], kept.input_spec(0).shape)};
}

Tensor reshape_to(const Tensor& x, const Shape& shape) { return apply(reshape_info(), Reshape{shape}, {x})[0]; }

// Examples stay together where as many elements come before their axis: [a, n * r, b] -> [a, n * r', b'].
BatchStates batch_rule(const Reshape& op, Inputs in, BatchStates& states, std::int64_t examples) {
  const auto [kind, axis, rows] = states[0];
  const std::int64_t before = in[0].shape.product(0, axis);
  for (int i = 0; i < op.shape.rank(); ++i)
    if (examples > 0 && op.shape.product(0, i) == before && op.shape[i] > 0 && op.shape[i] % examples == 0)
      return {BatchState::of_rows(i, op.shape[i] / examples)};
  return {BatchState{.kind = BatchState::Kind::blocked}};
}

Reshape with_batch(const Reshape& op, const BatchState& out, std::int64_t examples) {
  return {resized_batch(op.shape, out, examples)};
}

}  // namespace

TW_DEFINE_OP(reshape, Reshape)

Tensor reshape(const Tensor& x, const Ints& shape) {
  check_defined("reshape", x);
  return reshape_to(x, resolve_shape(x.shape(), shape));
}

Tensor expand_dims(const Tensor& x, std::int64_t axis) {
  check_defined("expand_dims", x);
  return reshape_to(x, x.shape().inserted(resolve_axis("expand_dims", axis, x.rank() + 1), 1));
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  check_defined("squeeze", x);
  const Ints chosen = axes.resolve("squeeze", x.rank());
  Ints sizes;
  for (int i = 0; i < x.rank(); ++i) {
    const bool named = chosen.contains(i);
    TW_CHECK_USER(!named || axes.all() || x.shape()[i] == 1, "squeeze", "name axes of size 1 only",
                  "axis {} of {} has size {}, expected 1", i, x.shape(), x.shape()[i]);
    if (!named || x.shape()[i] != 1) sizes.push_back(x.shape()[i]);
  }
  return reshape_to(x, Shape(sizes));
}

}  // namespace thalweg
