#include "thalweg/ops/gather/gather.h"

#include "thalweg/core/check.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/indices.h"
#include "thalweg/ops/gather/kernel.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/segment/segment.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg {
namespace {

struct GatherAxis {
  int axis, batch_dims;
};
TW_FIELDS(GatherAxis, axis, batch_dims)

GatherLayout layout_of(const GatherAxis& op, const Shape& x, const Shape& indices) {
  return {.batches = x.product(0, op.batch_dims),
          .outer = x.product(op.batch_dims, op.axis),
          .places = x[op.axis],
          .count = indices.product(op.batch_dims, indices.rank()),
          .row = x.product(op.axis + 1, x.rank())};
}

[[maybe_unused]] bool checks_values(const GatherAxis&) { return true; }

Specs infer(const GatherAxis& op, Inputs in) {
  const Shape &x = in[0].shape, &indices = in[1].shape;
  require_index_dtype("gather", "indices", in[1].dtype);
  TW_CHECK_USER(op.batch_dims >= 0 && op.batch_dims <= indices.rank() && op.batch_dims <= op.axis, "gather",
                "the shared leading axes come before the axis gathered from",
                "expected batch_dims from 0 to {}, got {}", std::min(indices.rank(), op.axis), op.batch_dims);
  TW_CHECK_USER(x.prefix(op.batch_dims) == indices.prefix(op.batch_dims), "gather",
                "the first batch_dims axes of x and indices are equal",
                "expected indices that begin with {} as x {}, got {}", x.prefix(op.batch_dims), x, indices);
  const Shape front = concatenate(x.prefix(op.axis), indices.suffix(op.batch_dims));
  return {Spec{in[0].dtype, concatenate(front, x.suffix(op.axis + 1))}};
}

void run(const GatherAxis& op, Arrays in, Arrays out) {
  const GatherLayout layout = layout_of(op, in[0].shape(), in[1].shape());
  check_indices("gather", in[1], layout.places);
  gather_rows(layout, in[0], in[1], out[0]);
}

Keeps keeps(const GatherAxis&, Needs) { return {.inputs = {1}, .outputs = {}}; }

Gradient row_sparse(const Tensor& dy, const Tensor& indices, const Shape& table) {
  const std::int64_t count = indices.size();
  return {reshape(dy, concatenate({count}, table.suffix(1))), cast(reshape(indices, {count}), i64), table};
}

// dy [b, o, k, r] with the rows of one batch and index side by side: summed by (batch, index), and put back in order.
Tensor dense(const GatherLayout& l, const Tensor& dy, const Tensor& indices, const Shape& shape) {
  const Tensor rows = transpose(reshape(dy, {l.batches, l.outer, l.count, l.row}), {0, 2, 1, 3});
  Tensor ids = indices;
  if (l.batches > 1)
    ids = reshape(cast(indices, i64), {l.batches, l.count}) +
          reshape(arange(0, l.batches * l.places, std::max<std::int64_t>(l.places, 1)), {-1, 1});
  const Tensor sums = unsorted_segment_sum(reshape(rows, {l.batches * l.count, l.outer * l.row}),
                                           reshape(ids, {l.batches * l.count}), l.batches * l.places);
  return reshape(transpose(reshape(sums, {l.batches, l.places, l.outer, l.row}), {0, 2, 1, 3}), shape);
}

Gradients gradient(const GatherAxis& op, const Kept& kept, const Tensors& dy, Needs) {
  const Shape& x = kept.input_spec(0).shape;
  const Tensor indices = kept.input(1);
  if (op.axis == 0) return {row_sparse(dy[0], indices, x), Gradient()};
  return {dense(layout_of(op, x, indices.shape()), dy[0], indices, x), Gradient()};
}

struct Lookup {
  bool negative_is_zero;
  const char* name() const { return negative_is_zero ? "gather_or_zero" : "embedding_lookup"; }
};
TW_FIELDS(Lookup, negative_is_zero)

[[maybe_unused]] bool checks_values(const Lookup&) { return true; }

Specs infer(const Lookup& op, Inputs in) {
  require_index_dtype(op.name(), "ids", in[1].dtype);
  TW_CHECK_USER(in[0].rank() >= 1, op.name(), "a table has one row per id",
                "expected a table of rank 1 or more, got a scalar");
  return {Spec{in[0].dtype, concatenate(in[1].shape, in[0].shape.suffix(1))}};
}

void run(const Lookup& op, Arrays in, Arrays out) {
  const GatherLayout layout = layout_of({.axis = 0, .batch_dims = 0}, in[0].shape(), in[1].shape());
  check_indices(op.name(), in[1], layout.places, op.negative_is_zero ? Negative::allowed : Negative::refused);
  gather_rows(layout, in[0], in[1], out[0]);
}

Keeps keeps(const Lookup&, Needs) { return {.inputs = {1}, .outputs = {}}; }

Gradients gradient(const Lookup& op, const Kept& kept, const Tensors& dy, Needs) {
  const Shape& table = kept.input_spec(0).shape;
  if (op.negative_is_zero) return {unsorted_segment_sum(dy[0], kept.input(1), table[0]), Gradient()};
  return {row_sparse(dy[0], kept.input(1), table), Gradient()};
}

BatchStates gather_rule(const GatherAxis& op, Inputs in, BatchStates& states, std::int64_t examples) {
  const int added = in[1].rank() - op.batch_dims;  // axes that take the place of `axis`
  Ints x, indices;
  for (int i = 0; i < in[0].rank(); ++i) x.push_back(i < op.axis ? i : i == op.axis ? mixed : i - 1 + added);
  for (int i = 0; i < in[1].rank(); ++i) indices.push_back(i < op.batch_dims ? i : op.axis + i - op.batch_dims);
  return named_axes_rule(in, states, examples, {x, indices}, {first_axes(in[0].rank() - 1 + added)});
}
BatchStates batch_rule(const GatherAxis& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return gather_rule(op, in, states, examples);
}
BatchStates batch_rule(const Lookup&, Inputs in, BatchStates& states, std::int64_t examples) {
  return gather_rule({.axis = 0, .batch_dims = 0}, in, states, examples);
}

}  // namespace

TW_DEFINE_OP(gather, GatherAxis)
TW_DEFINE_OP(embedding_lookup, Lookup)

Tensor gather(const Tensor& x, const Tensor& indices, const Gather& options) {
  check_defined("gather", x, indices);
  const int axis = resolve_axis("gather", options.axis, x.rank());
  const int batch_dims =
      static_cast<int>(options.batch_dims < 0 ? options.batch_dims + indices.rank() : options.batch_dims);
  return apply(gather_info(), GatherAxis{axis, batch_dims}, {x, indices})[0];
}

Tensor embedding_lookup(const Tensor& table, const Tensor& ids) {
  return apply(embedding_lookup_info(), Lookup{.negative_is_zero = false}, {table, ids})[0];
}

Tensor gather_or_zero(const Tensor& table, const Tensor& ids) {
  return apply(embedding_lookup_info(), Lookup{.negative_is_zero = true}, {table, ids})[0];
}

Tensor boolean_mask(const Tensor& x, const Tensor& mask, std::int64_t axis) {
  check_defined("boolean_mask", x, mask);
  const int first = resolve_axis("boolean_mask", axis, x.rank()), last = first + mask.rank();
  TW_CHECK_USER(mask.dtype() == boolean && mask.rank() >= 1, "boolean_mask", "compare to make a mask: x > 0",
                "expected a boolean mask of rank 1 or more, got {} {}", mask.dtype(), mask.shape());
  TW_CHECK_USER(
      last <= x.rank() && Shape(std::span(x.shape().begin() + first, x.shape().begin() + last)) == mask.shape(),
      "boolean_mask", "the mask's sizes are those of x from `axis` on",
      "expected a mask that fits x {} at axis {}, got {}", x.shape(), first, mask.shape());
  TW_CHECK(unimplemented, !is_symbolic(mask), "boolean_mask",
           "keep the shape and multiply by the mask, or use tw::where",
           "how many are kept depends on values that are not known while a function is traced");
  std::vector<std::int64_t> places;
  const auto values = mask.data<bool>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i]) places.push_back(static_cast<std::int64_t>(i));
  const Shape front = x.shape().prefix(first), rest = x.shape().suffix(last);
  const Tensor rows = reshape(x, concatenate(concatenate(front, {mask.size()}), rest));
  return gather(rows, Tensor::from(places, {static_cast<std::int64_t>(places.size())}), {.axis = first});
}

}  // namespace thalweg
