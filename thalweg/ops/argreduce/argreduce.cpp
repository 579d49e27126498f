#include "thalweg/ops/argreduce/argreduce.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

constexpr std::int64_t tile_columns = 256, task_elements = 32 * 1024;

template <bool largest>
struct ArgReduce {
  std::int64_t axis;
};
TW_FIELDS(ArgReduce<true>, axis)
TW_FIELDS(ArgReduce<false>, axis)

template <bool largest>
constexpr const char* name = largest ? "argmax" : "argmin";

template <bool largest>
Specs infer(const ArgReduce<largest>& op, Inputs in) {
  const int axis = resolve_axis(name<largest>, op.axis, in[0].rank());
  TW_CHECK_USER(in[0].shape[axis] > 0, name<largest>, "there is no place to name along an axis of size 0",
                "expected elements along axis {}, got {}", op.axis, in[0].shape);
  return {Spec{i64, in[0].shape.without(axis)}};
}

// Whether b, which comes later, takes the place of a.
template <bool largest, class T>
bool beats(T b, T a) {
  return (largest ? b > a : b < a) || (b != b && a == a);
}

// One tile of columns: x [n, width] with rows `stride` apart -> y [width].
template <bool largest, class T>
void reduce_tile(const T* x, std::int64_t n, std::int64_t stride, std::int64_t width, std::int64_t* y) {
  T best[tile_columns];
  std::copy_n(x, width, best);
  std::fill_n(y, width, 0);
  for (std::int64_t row = 1; row < n; ++row) {
    for (std::int64_t c = 0; c < width; ++c) {
      const T value = x[row * stride + c];
      if (beats<largest>(value, best[c])) best[c] = value, y[c] = row;
    }
  }
}

template <bool largest>
void run(const ArgReduce<largest>& op, Arrays in, Arrays out) {
  const Shape& shape = in[0].shape();
  const int axis = resolve_axis(name<largest>, op.axis, shape.rank());
  const std::int64_t n = shape[axis], inner = shape.product(axis + 1, shape.rank()), outer = shape.product(0, axis);
  if (out[0].size() == 0) return;
  const std::int64_t tiles = (inner + tile_columns - 1) / tile_columns, tile_size = n * std::min(inner, tile_columns);
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    parallel_ranges(outer * tiles, std::max<std::int64_t>(1, task_elements / tile_size),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        const std::int64_t column = i % tiles * tile_columns, o = i / tiles;
                        reduce_tile<largest>(in[0].as<const T>() + o * n * inner + column, n, inner,
                                             std::min(tile_columns, inner - column),
                                             out[0].as<std::int64_t>() + o * inner + column);
                      }
                    });
  });
}

template <bool largest>
bool differentiable(const ArgReduce<largest>&) {
  return false;
}

template <bool largest>
BatchStates batch_rule(const ArgReduce<largest>& op, Inputs in, BatchStates& states, std::int64_t examples) {
  const int axis = resolve_axis(name<largest>, op.axis, in[0].rank()), rank = in[0].rank();
  Ints names = first_axes(rank);
  names[axis] = mixed;
  return named_axes_rule(in, states, examples, {names}, {reduced_names(rank, {axis}, false)});
}

}  // namespace

TW_DEFINE_OP(argmax, ArgReduce<true>)
TW_DEFINE_OP(argmin, ArgReduce<false>)

Tensor argmax(const Tensor& x, std::int64_t axis) { return apply(argmax_info(), ArgReduce<true>{axis}, {x})[0]; }
Tensor argmin(const Tensor& x, std::int64_t axis) { return apply(argmin_info(), ArgReduce<false>{axis}, {x})[0]; }

}  // namespace thalweg
