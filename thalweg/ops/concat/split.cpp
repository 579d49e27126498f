#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg {
namespace {

// One record with many outputs: its gradient is one concat, where slices would each be padded and then added.
struct Split {
  std::vector<std::int64_t> sizes;
  int axis;
};
TW_FIELDS(Split, sizes, axis)

Specs infer(const Split& op, Inputs in) {
  std::int64_t total = 0;
  for (const std::int64_t size : op.sizes) total += size;
  TW_CHECK_USER(total == in[0].shape[op.axis], "split", "the sizes must add up to the axis; one may be -1 and is found",
                "expected sizes that add up to {} along axis {} of {}, got {}", in[0].shape[op.axis], op.axis,
                in[0].shape, total);
  Specs specs;
  for (const std::int64_t size : op.sizes) specs.push_back({in[0].dtype, in[0].shape.with(op.axis, size)});
  return specs;
}

void run(const Split& op, Arrays in, Arrays out) {
  const Ints strides = cpu::row_major_strides(in[0].shape());
  const std::int64_t bytes = size_of(in[0].dtype());
  const auto* from = in[0].as<const std::byte>();
  for (const Array& part : out) {
    cpu::strided_copy(from, strides, part.data, cpu::row_major_strides(part.shape()), part.shape(), bytes);
    from += part.shape()[op.axis] * strides[op.axis] * bytes;
  }
}

Gradients gradient(const Split& op, const Kept& kept, const Tensors& dy, Needs) {
  std::vector<Tensor> parts;
  for (int i = 0; i < kept.outputs(); ++i) {
    const Tensor& part = dy[static_cast<std::size_t>(i)];
    parts.push_back(part.defined() ? part : zeros(kept.output_spec(i).shape, kept.output_spec(i).dtype));
  }
  return {concat(parts, op.axis)};
}

BatchStates batch_rule(const Split& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return same_axes_rule(in, states, examples, {op.axis}, static_cast<int>(op.sizes.size()));
}

Split lifted(const Split& op, Inputs, std::int64_t) { return {op.sizes, op.axis + 1}; }

}  // namespace

TW_DEFINE_OP(split, Split)

std::vector<std::int64_t> Parts::resolve(std::int64_t size) const {
  if (sizes_.empty()) {
    TW_CHECK_USER(count_ > 0 && size % count_ == 0, "split",
                  "give the sizes of the parts instead: tw::split(x, {2, 3}, axis)",
                  "expected a number of equal parts that divides {}, got {}", size, count_);
    return std::vector<std::int64_t>(static_cast<std::size_t>(count_), size / count_);
  }
  auto sizes = sizes_;
  std::int64_t known = 0, *unknown = nullptr;
  for (auto& part : sizes) {
    TW_CHECK_USER(part >= 0 || (part == -1 && !unknown), "split", "sizes are 0 or more; one may be -1 and is found",
                  "expected the sizes of the parts, got {}", part);
    if (part == -1)
      unknown = &part;
    else
      known += part;
  }
  if (unknown && known <= size) *unknown = size - known;
  return sizes;
}

std::vector<Tensor> split(const Tensor& x, const Parts& parts, std::int64_t axis) {
  check_defined("split", x);
  const int place = resolve_axis("split", axis, x.rank());
  return apply(split_info(), Split{parts.resolve(x.shape()[place]), place}, {x});
}

std::vector<Tensor> unstack(const Tensor& x, std::int64_t axis) {
  check_defined("unstack", x);
  const int place = resolve_axis("unstack", axis, x.rank());
  const std::int64_t count = x.shape()[place];
  if (count == 0) return {};
  const Shape shape = x.shape().without(place);
  auto slices = split(x, count, place);
  for (auto& part : slices) part = reshape(part, shape);
  return slices;
}

}  // namespace thalweg
