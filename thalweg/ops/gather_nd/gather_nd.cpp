#include "thalweg/ops/gather_nd/gather_nd.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/gather/indices.h"
#include "thalweg/ops/gather/kernel.h"
#include "thalweg/ops/gather_nd/index_vectors.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/tile/tile.h"

namespace thalweg {
namespace {

struct GatherVectors {};

[[maybe_unused]] bool checks_values(const GatherVectors&) { return true; }

Specs infer(const GatherVectors&, Inputs in) {
  const int depth = require_index_vectors("gather_nd", in[1], in[0].shape);
  return {Spec{in[0].dtype, concatenate(in[1].shape.prefix(in[1].rank() - 1), in[0].shape.suffix(depth))}};
}

std::int64_t workspace(const GatherVectors&, Inputs in) { return vector_count(in[1].shape) * 8; }

void run(const GatherVectors&, Arrays in, Arrays out, Scratch scratch) {
  const std::int64_t count = vector_count(in[1].shape());
  auto* rows = reinterpret_cast<std::int64_t*>(scratch.data());
  flatten_index_vectors("gather_nd", in[1], in[0].shape(), rows);
  const Shape& x = in[0].shape();
  const int depth = static_cast<int>(in[1].shape().last());
  const Spec row_spec{i64, {count}};
  gather_rows(
      {.batches = 1, .outer = 1, .places = x.product(0, depth), .count = count, .row = x.product(depth, x.rank())},
      in[0], {rows, &row_spec}, out[0]);
}

Keeps keeps(const GatherVectors&, Needs) { return {.inputs = {1}, .outputs = {}}; }

Gradients gradient(const GatherVectors&, const Kept& kept, const Tensors& dy, Needs) {
  const Tensor indices = kept.input(1);
  const Shape& x = kept.input_spec(0).shape;
  if (indices.shape().last() != 1) return {scatter_nd(indices, dy[0], x), Gradient()};
  const std::int64_t count = indices.size();
  return {Gradient(reshape(dy[0], x.with(0, count)), cast(reshape(indices, {count}), i64), x), Gradient()};
}

// The batch's number as the first entry of every index vector: [b…, k…, d] -> [batches, count, d + 1].
Tensor with_batch_numbers(const Tensor& indices, std::int64_t batches) {
  const std::int64_t depth = indices.shape().last(),
                     count = vector_count(indices.shape()) / std::max<std::int64_t>(batches, 1);
  const Tensor numbers = broadcast_to(reshape(arange(batches), {batches, 1, 1}), {batches, count, 1});
  return concat({numbers, reshape(cast(indices, i64), {batches, count, depth})}, 2);
}

BatchStates batch_rule(const GatherVectors&, Inputs in, BatchStates& states, std::int64_t examples) {
  const int depth = static_cast<int>(in[1].shape.last()), front = in[1].rank() - 1;
  Ints x(depth, mixed);
  for (int i = depth; i < in[0].rank(); ++i) x.push_back(front + i - depth);
  return named_axes_rule(in, states, examples, {x, first_axes(front)}, {first_axes(front + in[0].rank() - depth)});
}

}  // namespace

TW_DEFINE_OP(gather_nd, GatherVectors)

int require_index_vectors(const char* op, const Spec& indices, const Shape& shape) {
  require_index_dtype(op, "indices", indices.dtype);
  TW_CHECK_USER(indices.rank() >= 1, op, "the last axis of the indices holds one entry per axis they speak of",
                "expected indices of rank 1 or more, got a scalar");
  TW_CHECK_USER(indices.shape.last() <= shape.rank(), op, "index vectors are no longer than the tensor has axes",
                "expected index vectors of at most {} entries for {}, got {} in indices {}", shape.rank(), shape,
                indices.shape.last(), indices.shape);
  return static_cast<int>(indices.shape.last());
}

Tensor gather_nd(const Tensor& x, const Tensor& indices, const GatherNd& options) {
  if (options.batch_dims == 0) return apply(gather_nd_info(), GatherVectors{}, {x, indices})[0];
  const auto shared = static_cast<int>(options.batch_dims);
  TW_CHECK_USER(shared > 0 && shared < indices.rank() && shared <= x.rank() &&
                    x.shape().prefix(shared) == indices.shape().prefix(shared),
                "gather_nd", "the first batch_dims axes of x and indices are equal",
                "expected {} leading axes in common, got x {} and indices {}", options.batch_dims, x.shape(),
                indices.shape());
  const Shape batch = x.shape().prefix(shared), rest = x.shape().suffix(shared);
  require_index_vectors("gather_nd", indices.spec(), rest);
  const Tensor flat =
      gather_nd(reshape(x, concatenate({batch.size()}, rest)), with_batch_numbers(indices, batch.size()));
  const Shape front = indices.shape().prefix(indices.rank() - 1);
  return reshape(flat, concatenate(front, rest.suffix(static_cast<int>(indices.shape().last()))));
}

}  // namespace thalweg
