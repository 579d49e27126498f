#include <cstring>

#include "thalweg/backend/cpu/kernels/rows.h"
#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/indices.h"
#include "thalweg/ops/gather_nd/gather_nd.h"
#include "thalweg/ops/gather_nd/index_vectors.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg {
namespace {

// shape [n_1 … n_d, r…], indices [k…, d], updates [k…, r…].
void require_updates(const char* op, const Shape& shape, const Spec& indices, const Spec& updates) {
  const int depth = require_index_vectors(op, indices, shape);
  const Shape wanted = concatenate(indices.shape.prefix(indices.rank() - 1), shape.suffix(depth));
  TW_CHECK_USER(updates.shape == wanted, op, "updates hold one slice of the tensor for every index vector",
                "expected updates {} for indices {} into {}, got {}", wanted, indices.shape, shape, updates.shape);
}

void require_sum(const char* op, DType dtype) {
  TW_CHECK_USER(dtype != boolean, op, "cast to an integer first", "expected a dtype that adds, got boolean");
}

void require_same_dtype(const char* op, const Spec& x, const Spec& updates) {
  TW_CHECK_USER(x.dtype == updates.dtype, op, "cast one of them", "expected updates of dtype {} as the tensor, got {}",
                x.dtype, updates.dtype);
}

std::int64_t row_width(const Shape& shape, const Shape& indices) {
  return shape.product(static_cast<int>(indices.last()), shape.rank());
}

std::int64_t ids_bytes(const Shape& indices) { return vector_count(indices) * 8; }

std::int64_t adding_workspace(const Shape& shape, const Spec& indices, DType dtype) {
  return ids_bytes(indices.shape) +
         cpu::row_update_scratch(vector_count(indices.shape), row_width(shape, indices.shape), dtype);
}

std::int64_t* flatten(const char* op, const Array& indices, const Shape& shape, Scratch scratch) {
  auto* ids = reinterpret_cast<std::int64_t*>(scratch.data());
  flatten_index_vectors(op, indices, shape, ids);
  return ids;
}

void add_updates(const Array& out, const Array& indices, const Array& updates, const std::int64_t* ids,
                 Scratch scratch) {
  cpu::add_rows({.table = out.data,
                 .values = updates.data,
                 .ids = ids,
                 .count = vector_count(indices.shape()),
                 .width = row_width(out.shape(), indices.shape()),
                 .dtype = out.dtype()},
                scratch.subspan(static_cast<std::size_t>(ids_bytes(indices.shape()))));
}

void copy_all(const Array& from, const Array& to) {
  cpu::strided_copy(from.data, {1}, to.data, {1}, {from.size()}, size_of(from.dtype()));
}

struct ScatterNd {
  Shape shape;
};
TW_FIELDS(ScatterNd, shape)

[[maybe_unused]] bool checks_values(const ScatterNd&) { return true; }

Specs infer(const ScatterNd& op, Inputs in) {
  require_sum("scatter_nd", in[1].dtype);
  require_updates("scatter_nd", op.shape, in[0], in[1]);
  return {Spec{in[1].dtype, op.shape}};
}

std::int64_t workspace(const ScatterNd& op, Inputs in) { return adding_workspace(op.shape, in[0], in[1].dtype); }

void run(const ScatterNd& op, Arrays in, Arrays out, Scratch scratch) {
  const std::int64_t* ids = flatten("scatter_nd", in[0], op.shape, scratch);
  constexpr std::int64_t zero = 0;
  cpu::fill_elements(out[0].data, out[0].size(), &zero, size_of(out[0].dtype()));
  add_updates(out[0], in[0], in[1], ids, scratch);
}

Keeps keeps(const ScatterNd&, Needs) { return {.inputs = {0}, .outputs = {}}; }

Gradients gradient(const ScatterNd&, const Kept& kept, const Tensors& dy, Needs) {
  return {Gradient(), gather_nd(dy[0], kept.input(0))};
}

struct ScatterAdd {};

[[maybe_unused]] bool checks_values(const ScatterAdd&) { return true; }

Specs infer(const ScatterAdd&, Inputs in) {
  require_sum("tensor_scatter_nd_add", in[0].dtype);
  require_same_dtype("tensor_scatter_nd_add", in[0], in[2]);
  require_updates("tensor_scatter_nd_add", in[0].shape, in[1], in[2]);
  return {in[0]};
}

// The result may take the memory of the tensor, or of updates of the same shape, which are then copied first.
[[maybe_unused]] bool in_place(const ScatterAdd&) { return true; }

std::int64_t updates_copy(const Spec& x, const Spec& updates) {
  return x.shape == updates.shape ? memory::rounded(updates.bytes()) : 0;
}

std::int64_t workspace(const ScatterAdd&, Inputs in) {
  return updates_copy(in[0], in[2]) + adding_workspace(in[0].shape, in[1], in[0].dtype);
}

void run(const ScatterAdd&, Arrays in, Arrays out, Scratch scratch) {
  const std::int64_t copied = updates_copy(*in[0].spec, *in[2].spec);
  Array updates = in[2];
  if (copied > 0 && out[0].data == in[2].data) {
    updates.data = scratch.data();
    copy_all(in[2], updates);
  }
  const Scratch rest = scratch.subspan(static_cast<std::size_t>(copied));
  const std::int64_t* ids = flatten("tensor_scatter_nd_add", in[1], in[0].shape(), rest);
  if (out[0].data != in[0].data) copy_all(in[0], out[0]);
  add_updates(out[0], in[1], updates, ids, rest);
}

Keeps keeps(const ScatterAdd&, Needs needs) { return {.inputs = needs[2] ? Positions{1} : Positions{}, .outputs = {}}; }

Gradients gradient(const ScatterAdd&, const Kept& kept, const Tensors& dy, Needs needs) {
  return {dy[0], Gradient(), needs[2] ? Gradient(gather_nd(dy[0], kept.input(1))) : Gradient()};
}

struct ScatterUpdate {};

[[maybe_unused]] bool checks_values(const ScatterUpdate&) { return true; }

Specs infer(const ScatterUpdate&, Inputs in) {
  require_same_dtype("tensor_scatter_nd_update", in[0], in[2]);
  require_updates("tensor_scatter_nd_update", in[0].shape, in[1], in[2]);
  return {in[0]};
}

std::int64_t workspace(const ScatterUpdate&, Inputs in) { return ids_bytes(in[1].shape); }

// On one thread, so that the last of repeated indices is the one that stays.
void run(const ScatterUpdate&, Arrays in, Arrays out, Scratch scratch) {
  const std::int64_t* ids = flatten("tensor_scatter_nd_update", in[1], in[0].shape(), scratch);
  copy_all(in[0], out[0]);
  const std::int64_t bytes = row_width(in[0].shape(), in[1].shape()) * size_of(in[0].dtype()),
                     count = vector_count(in[1].shape());
  for (std::int64_t i = 0; bytes > 0 && i < count; ++i)
    std::memcpy(out[0].as<std::byte>() + ids[i] * bytes, in[2].as<const std::byte>() + i * bytes,
                static_cast<std::size_t>(bytes));
}

Keeps keeps(const ScatterUpdate&, Needs) { return {.inputs = {1}, .outputs = {}}; }

// True for every index vector [k…] that no later one repeats: its update is the one that stayed.
Tensor last_of_repeated(const Tensor& indices, const Shape& shape) {
  const Tensor numbers = reshape(arange(vector_count(indices.shape())), indices.shape().prefix(indices.rank() - 1));
  const Tensor none = full(shape.prefix(static_cast<int>(indices.shape().last())), -1, i64);
  return gather_nd(tensor_scatter_nd_update(none, indices, numbers), indices) == numbers;
}

Gradients gradient(const ScatterUpdate&, const Kept& kept, const Tensors& dy, Needs needs) {
  const Tensor indices = kept.input(1);
  const Spec& updates = kept.input_spec(2);
  Gradients gradients{Gradient(), Gradient(), Gradient()};
  if (needs[0]) gradients[0] = tensor_scatter_nd_update(dy[0], indices, zeros(updates.shape, updates.dtype));
  if (needs[2]) {
    const Tensor stayed = last_of_repeated(indices, dy[0].shape());
    Ints sizes = stayed.shape();
    while (sizes.size() < updates.rank()) sizes.push_back(1);
    gradients[2] = where(reshape(stayed, sizes), gather_nd(dy[0], indices), 0);
  }
  return gradients;
}

// indices [k…, d], updates [k…, r…] and what they go into, [n_1 … n_d, r…].
struct ScatterNames {
  Ints indices, updates, table;
  ScatterNames(const Shape& index_shape, int update_rank)
      : indices(first_axes(index_shape.rank() - 1)),
        updates(first_axes(update_rank)),
        table(static_cast<int>(index_shape.last()), mixed) {
    for (int i = indices.size(); i < update_rank; ++i) table.push_back(i);
  }
  // For an op that does more than add: axes k are mixed.
  void only_rest() {
    for (int i = 0; i < indices.size(); ++i) updates[i] = mixed;
    indices = {};
  }
};

BatchStates batch_rule(const ScatterNd&, Inputs in, BatchStates& states, std::int64_t examples) {
  const ScatterNames names(in[0].shape, in[1].rank());
  return named_axes_rule(in, states, examples, {names.indices, names.updates}, {names.table});
}

ScatterNd with_batch(const ScatterNd& op, const BatchState& out, std::int64_t examples) {
  return {resized_batch(op.shape, out, examples)};
}

BatchStates scatter_into_rule(Inputs in, BatchStates& states, std::int64_t examples) {
  ScatterNames names(in[1].shape, in[2].rank());
  names.only_rest();
  return named_axes_rule(in, states, examples, {names.table, names.indices, names.updates}, {names.table});
}
// What examples add to a tensor of all of them goes there at once: a whole result of rows.
BatchStates batch_rule(const ScatterAdd&, Inputs in, BatchStates& states, std::int64_t examples) {
  const BatchStates cut = scatter_into_rule(in, states, examples);
  return cut[0].is_rows() || states[0].is_rows() ? cut : BatchStates{BatchState{}};
}
BatchStates batch_rule(const ScatterUpdate&, Inputs in, BatchStates& states, std::int64_t examples) {
  return scatter_into_rule(in, states, examples);
}

}  // namespace

TW_DEFINE_OP(scatter_nd, ScatterNd)
TW_DEFINE_OP(tensor_scatter_nd_add, ScatterAdd)
TW_DEFINE_OP(tensor_scatter_nd_update, ScatterUpdate)

Tensor scatter_nd(const Tensor& indices, const Tensor& updates, const Shape& shape) {
  return apply(scatter_nd_info(), ScatterNd{shape}, {indices, updates})[0];
}

Tensor tensor_scatter_nd_add(const Tensor& x, const Tensor& indices, const Tensor& updates) {
  return apply(tensor_scatter_nd_add_info(), ScatterAdd{}, {x, indices, updates})[0];
}

Tensor tensor_scatter_nd_update(const Tensor& x, const Tensor& indices, const Tensor& updates) {
  return apply(tensor_scatter_nd_update_info(), ScatterUpdate{}, {x, indices, updates})[0];
}

}  // namespace thalweg
