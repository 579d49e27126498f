#include "thalweg/ops/diagonal/diagonal.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Diag {
  std::int64_t rows, columns;
};
struct DiagPart {};
struct BandPart {
  std::int64_t lower, upper;
};
TW_FIELDS(Diag, rows, columns)
TW_FIELDS(BandPart, lower, upper)

void check_matrix(const char* op, const Spec& x) {
  TW_CHECK_USER(x.rank() >= 2, op, "matrices are the last two axes", "expected a tensor of rank 2 or more, got {}",
                x.shape);
}

// body(i) for each of `count` matrices of this many elements.
template <class Body>
void for_each_matrix(std::int64_t count, std::int64_t elements, const Body& body) {
  parallel_ranges(count, std::max<std::int64_t>(1, 32 * 1024 / std::max<std::int64_t>(1, elements)),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) body(i);
                  });
}

Specs infer(const Diag& op, Inputs in) {
  TW_CHECK_USER(in[0].rank() >= 1, "diag", "a scalar has no axis to spread",
                "expected a tensor of rank 1 or more, got a scalar");
  TW_CHECK_INTERNAL(in[0].shape.last() == std::min(op.rows, op.columns), "diag",
                    "{} does not fit a diagonal of [{}, {}]", in[0].shape, op.rows, op.columns);
  return {Spec{in[0].dtype, concatenate(in[0].shape.prefix(in[0].rank() - 1), Shape{op.rows, op.columns})}};
}

void run(const Diag& op, Arrays in, Arrays out) {
  const std::int64_t n = in[0].shape().last(), elements = op.rows * op.columns;
  if (elements == 0) return;
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    for_each_matrix(out[0].size() / elements, elements, [&](std::int64_t i) {
      auto* y = out[0].as<T>() + i * elements;
      std::fill_n(y, elements, T());
      for (std::int64_t j = 0; j < n; ++j) y[j * (op.columns + 1)] = in[0].as<const T>()[i * n + j];
    });
  });
}

Gradients gradient(const Diag&, const Kept&, const Tensors& dy, Needs) { return {diag_part(dy[0])}; }

Tensor spread(const Tensor& x, std::int64_t rows, std::int64_t columns) {
  return apply(diag_info(), Diag{rows, columns}, {x})[0];
}

Specs infer(const DiagPart&, Inputs in) {
  const Shape& shape = in[0].shape;
  check_matrix("diag_part", in[0]);
  return {
      Spec{in[0].dtype,
           shape.without(shape.rank() - 1).with(shape.rank() - 2, std::min(shape[shape.rank() - 2], shape.last()))}};
}

void run(const DiagPart&, Arrays in, Arrays out) {
  const std::int64_t n = out[0].shape().last(), columns = in[0].shape().last();
  if (n == 0 || out[0].size() == 0) return;
  const std::int64_t matrices = out[0].size() / n, elements = in[0].size() / matrices;
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    for_each_matrix(matrices, n, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < n; ++j)
        out[0].as<T>()[i * n + j] = in[0].as<const T>()[i * elements + j * (columns + 1)];
    });
  });
}

Gradients gradient(const DiagPart&, const Kept& kept, const Tensors& dy, Needs) {
  const Shape& shape = kept.input_spec(0).shape;
  return {spread(dy[0], shape[shape.rank() - 2], shape.last())};
}

Specs infer(const BandPart&, Inputs in) {
  check_matrix("band_part", in[0]);
  return {in[0]};
}

void run(const BandPart& op, Arrays in, Arrays out) {
  const std::int64_t columns = in[0].shape().last(), rows = in[0].shape()[in[0].shape().rank() - 2];
  if (in[0].size() == 0) return;
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    for_each_matrix(in[0].size() / columns, columns, [&](std::int64_t i) {
      const std::int64_t row = i % rows;
      const std::int64_t first = op.lower < 0 ? 0 : std::clamp<std::int64_t>(row - op.lower, 0, columns);
      const std::int64_t last = op.upper < 0 ? columns : std::clamp<std::int64_t>(row + op.upper + 1, first, columns);
      const auto* x = in[0].as<const T>() + i * columns;
      auto* y = out[0].as<T>() + i * columns;
      std::fill(y, y + first, T());
      std::copy(x + first, x + last, y + first);
      std::fill(y + last, y + columns, T());
    });
  });
}

Gradients gradient(const BandPart& op, const Kept&, const Tensors& dy, Needs) {
  return {band_part(dy[0], op.lower, op.upper)};
}

BatchStates batch_rule(const Diag&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 1);
}
BatchStates batch_rule(const DiagPart&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 2);
}
BatchStates batch_rule(const BandPart&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 2);
}

}  // namespace

TW_DEFINE_OP(diag, Diag)
TW_DEFINE_OP(diag_part, DiagPart)
TW_DEFINE_OP(band_part, BandPart)

Tensor diag(const Tensor& x) {
  const std::int64_t n = x.rank() > 0 ? x.shape().last() : 0;
  return spread(x, n, n);
}

Tensor diag_part(const Tensor& x) { return apply(diag_part_info(), DiagPart{}, {x})[0]; }

Tensor trace(const Tensor& x) {
  check_matrix("trace", x.spec());
  return reduce_sum(diag_part(x), {.axes = -1});
}

Tensor band_part(const Tensor& x, std::int64_t lower, std::int64_t upper) {
  return apply(band_part_info(), BandPart{lower, upper}, {x})[0];
}

}  // namespace thalweg
