#include "thalweg/ops/row_sparse/row_sparse.h"

#include <cstring>

#include "thalweg/backend/cpu/kernels/rows.h"
#include "thalweg/core/check.h"
#include "thalweg/core/tracer.h"
#include "thalweg/core/variable_storage.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/gather/indices.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/segment/segment.h"

namespace thalweg {
namespace {

struct Distinct {
  std::int64_t rows = 0;
};
TW_FIELDS(Distinct, rows)

Specs infer(const Distinct&, Inputs in) {
  TW_CHECK_INTERNAL(in[0].dtype == i64 && in[0].rank() == 1, "distinct_rows", "indices are {} {}", in[0].dtype,
                    in[0].shape);
  return {in[0], in[0]};
}

std::int64_t workspace(const Distinct&, Inputs in) { return cpu::distinct_ids_scratch(in[0].size()); }

void run(const Distinct& op, Arrays in, Arrays out, Scratch scratch) {
  check_indices("distinct_rows", in[0], op.rows, Negative::allowed);
  cpu::distinct_ids(in[0].as<const std::int64_t>(), in[0].size(), out[0].as<std::int64_t>(), out[1].as<std::int64_t>(),
                    scratch);
}

[[maybe_unused]] bool differentiable(const Distinct&) { return false; }
[[maybe_unused]] bool checks_values(const Distinct&) { return true; }

bool are_row_numbers(const Spec& numbers) { return numbers.dtype == i64 && numbers.rank() == 1; }

std::int64_t width_of(const Spec& table) { return table.shape.product(1, table.rank()); }

// They come from distinct_rows, which has checked them; only in a graph from a file they may be others.
void check_numbers(const char* op, const Array& numbers, const Spec& table) {
  check_indices(op, numbers, table.shape[0], Negative::allowed);
}

struct TakeRows {};

Specs infer(const TakeRows&, Inputs in) {
  TW_CHECK_INTERNAL(in[0].rank() >= 1 && are_row_numbers(in[1]), "take_rows", "{} {} are no rows of {}", in[1].dtype,
                    in[1].shape, in[0].shape);
  return {Spec{in[0].dtype, in[0].shape.with(0, in[1].size())}};
}

void run(const TakeRows&, Arrays in, Arrays out) {
  check_numbers("take_rows", in[1], *in[0].spec);
  cpu::take_rows(in[0].data, in[1].as<const std::int64_t>(), in[1].size(),
                 width_of(*in[0].spec) * size_of(in[0].dtype()), out[0].data);
}

[[maybe_unused]] bool differentiable(const TakeRows&) { return false; }

struct PutRows {};

Specs infer(const PutRows&, Inputs in) {
  const Spec &table = in[0], &numbers = in[1], &values = in[2];
  const bool fits = are_row_numbers(numbers) && table.rank() >= 1 && values.dtype == table.dtype &&
                    values.shape == table.shape.with(0, numbers.size()) && numbers.size() < table.shape[0];
  TW_CHECK_INTERNAL(fits, "put_rows", "{} {} do not fit {} rows of {}", values.shape, values.dtype, numbers.shape,
                    table.shape);
  return {table};
}

void put(void* table, const Spec& spec, const Array& numbers, const void* values) {
  cpu::put_rows({.table = table,
                 .values = values,
                 .ids = numbers.as<const std::int64_t>(),
                 .count = numbers.size(),
                 .width = width_of(spec),
                 .dtype = spec.dtype});
}

void run(const PutRows&, Arrays in, Arrays out) {
  check_numbers("put_rows", in[1], *in[0].spec);
  if (out[0].data != in[0].data && out[0].size() > 0)
    std::memcpy(out[0].data, in[0].data, static_cast<std::size_t>(in[0].spec->bytes()));
  put(out[0].data, *out[0].spec, in[1], in[2].data);
}

[[maybe_unused]] bool differentiable(const PutRows&) { return false; }
// Only the table is as large as the output.
[[maybe_unused]] bool in_place(const PutRows&) { return true; }
// The rows of all examples are put in at once.
BatchStates batch_rule(const PutRows&, Inputs, BatchStates&, std::int64_t) { return {BatchState{}}; }

}  // namespace

TW_DEFINE_OP(distinct_rows, Distinct)
TW_DEFINE_OP(take_rows, TakeRows)
TW_DEFINE_OP(put_rows, PutRows)

DistinctRows distinct_rows(const Tensor& indices, std::int64_t rows) {
  const Tensors results = apply(distinct_rows_info(), Distinct{rows}, {cast(indices, i64)});
  return {results[0], results[1]};
}

Tensor take_rows(const Tensor& table, const Tensor& numbers) {
  return apply(take_rows_info(), TakeRows{}, {table, numbers})[0];
}

Tensor put_rows(const Tensor& table, const Tensor& numbers, const Tensor& values) {
  return apply(put_rows_info(), PutRows{}, {table, numbers, values})[0];
}

void put_rows(Variable& variable, const Tensor& numbers, const Tensor& values) {
  if (tracer()) return variable.assign(put_rows(variable.value(), numbers, values));
  const Spec* specs[] = {&variable.spec(), &numbers.spec(), &values.spec()};
  infer(PutRows{}, Inputs(specs));
  VariableStorage::change({&variable, 1}, [&](std::span<void* const> bytes) {
    put(bytes[0], variable.spec(), {mutable_data(numbers), &numbers.spec()}, values.impl().data);
  });
}

Gradient combine_rows(const Gradient& gradient) {
  if (!gradient.defined() || !gradient.is_sparse()) return gradient;
  const auto [rows, places] = distinct_rows(gradient.indices(), gradient.shape()[0]);
  return Gradient(unsorted_segment_sum(gradient.values(), places, gradient.indices().size()), rows, gradient.shape());
}

}  // namespace thalweg
