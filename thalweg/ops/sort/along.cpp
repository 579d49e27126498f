#include "thalweg/ops/sort/along.h"

#include <algorithm>

#include "thalweg/backend/cpu/kernels/index_view.h"
#include "thalweg/core/check.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct TakeAlong {};

struct PutAlong {
  std::int64_t n;
};
TW_FIELDS(PutAlong, n)

void check_indices(const char* op, const Spec& x, const Spec& indices, bool same_size) {
  TW_CHECK_INTERNAL(x.rank() > 0 && indices.dtype == i32 && indices.rank() == x.rank() &&
                        x.shape.prefix(x.rank() - 1) == indices.shape.prefix(x.rank() - 1) &&
                        (!same_size || x.shape == indices.shape),
                    op, "indices {} {} do not fit x {}", indices.dtype, indices.shape, x.shape);
}

// Places are computed by other ops; in a graph from a file they may be anything.
void check_places(const char* op, const Array& indices, std::int64_t n) {
  const auto* values = indices.as<const std::int32_t>();
  if (const auto bad = cpu::find_bad_index(cpu::IndexView(values), indices.size(), n))
    TW_FAIL(out_of_range, op, "places come from argsort or top_k", "expected places below {}, got {}", n, bad->value);
}

// row(i) for every row, as many in a task as have about 32 Ki elements.
template <class Row>
void for_each_row(std::int64_t rows, std::int64_t row_size, const Row& row) {
  parallel_ranges(rows, std::max<std::int64_t>(1, 32 * 1024 / std::max<std::int64_t>(1, row_size)),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) row(i);
                  });
}

[[maybe_unused]] bool checks_values(const TakeAlong&) { return true; }

Specs infer(const TakeAlong&, Inputs in) {
  check_indices("take_along", in[0], in[1], false);
  return {Spec{in[0].dtype, in[1].shape}};
}

void run(const TakeAlong&, Arrays in, Arrays out) {
  const std::int64_t n = in[0].shape().last(), m = in[1].shape().last(),
                     rows = in[1].shape().product(0, in[1].shape().rank() - 1);
  check_places("take_along", in[1], n);
  const auto* indices = in[1].as<const std::int32_t>();
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    for_each_row(rows, m, [&](std::int64_t row) {
      const auto* x = in[0].as<const T>() + row * n;
      for (std::int64_t j = row * m; j < (row + 1) * m; ++j) out[0].as<T>()[j] = x[indices[j]];
    });
  });
}

Keeps keeps(const TakeAlong&, Needs) { return {.inputs = {1}, .outputs = {}}; }

Gradients gradient(const TakeAlong&, const Kept& kept, const Tensors& dy, Needs) {
  return {put_along(dy[0], kept.input(1), kept.input_spec(0).shape.last()), Gradient()};
}

[[maybe_unused]] bool checks_values(const PutAlong&) { return true; }

Specs infer(const PutAlong& op, Inputs in) {
  check_indices("put_along", in[0], in[1], true);
  return {Spec{in[0].dtype, in[0].shape.with(in[0].rank() - 1, op.n)}};
}

void run(const PutAlong& op, Arrays in, Arrays out) {
  const std::int64_t m = in[1].shape().last(), rows = in[1].shape().product(0, in[1].shape().rank() - 1);
  check_places("put_along", in[1], op.n);
  const auto* indices = in[1].as<const std::int32_t>();
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    const auto* x = in[0].as<const T>();
    for_each_row(rows, op.n + m, [&](std::int64_t row) {
      auto* y = out[0].as<T>() + row * op.n;
      std::fill_n(y, op.n, T());
      for (std::int64_t j = row * m; j < (row + 1) * m; ++j) y[indices[j]] = convert<T>(y[indices[j]] + x[j]);
    });
  });
}

Keeps keeps(const PutAlong&, Needs) { return {.inputs = {1}, .outputs = {}}; }

Gradients gradient(const PutAlong&, const Kept& kept, const Tensors& dy, Needs) {
  return {take_along(dy[0], kept.input(1)), Gradient()};
}

BatchStates batch_rule(const TakeAlong&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 1);
}
BatchStates batch_rule(const PutAlong&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 1);
}

}  // namespace

TW_DEFINE_OP(take_along, TakeAlong)
TW_DEFINE_OP(put_along, PutAlong)

Tensor take_along(const Tensor& x, const Tensor& indices) {
  return apply(take_along_info(), TakeAlong{}, {x, indices})[0];
}

Tensor put_along(const Tensor& x, const Tensor& indices, std::int64_t n) {
  return apply(put_along_info(), PutAlong{n}, {x, indices})[0];
}

}  // namespace thalweg
