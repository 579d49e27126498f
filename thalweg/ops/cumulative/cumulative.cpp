#include "thalweg/ops/cumulative/cumulative.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/cumulative/recurrence.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/pad/pad.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg {
namespace {

constexpr std::int64_t tile_columns = 256, task_elements = 32 * 1024;

struct CumulativeSum {
  Cumulative options;
};
struct CumulativeProduct {
  Cumulative options;
};
struct LinearRecurrence {
  std::int64_t axis;
  bool reverse;
};
TW_FIELDS(CumulativeSum, options.axis, options.exclusive, options.reverse)
TW_FIELDS(CumulativeProduct, options.axis, options.exclusive, options.reverse)
TW_FIELDS(LinearRecurrence, axis, reverse)

// What a running value is held in: 16-bit floats in f32, integers unsigned, so that they wrap around.
template <class T>
struct Running {
  using type = T;
};
template <>
struct Running<Half> {
  using type = float;
};
template <>
struct Running<BFloat16> {
  using type = float;
};
template <class T>
requires std::is_integral_v<T>
struct Running<T> {
  using type = std::uint64_t;
};

// Walks [outer, n, inner] along n, from the end if reverse: step(running, index) for each element, one running value
// for each column.
template <class T, class Step>
void scan(const Shape& shape, int axis, bool reverse, typename Running<T>::type start, const Step& step) {
  const std::int64_t outer = shape.product(0, axis), n = shape[axis], inner = shape.product(axis + 1, shape.rank());
  if (shape.size() == 0) return;
  const std::int64_t tiles = (inner + tile_columns - 1) / tile_columns, tile_size = n * std::min(inner, tile_columns);
  parallel_ranges(
      outer * tiles, std::max<std::int64_t>(1, task_elements / tile_size), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t tile = begin; tile < end; ++tile) {
          const std::int64_t column = tile % tiles * tile_columns, width = std::min(tile_columns, inner - column);
          typename Running<T>::type running[tile_columns];
          std::fill_n(running, width, start);
          for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t row = (tile / tiles * n + (reverse ? n - 1 - i : i)) * inner + column;
            for (std::int64_t c = 0; c < width; ++c) step(running[c], row + c);
          }
        }
      });
}

template <class Combine>
void run_cumulative(const char* op, const Cumulative& options, Arrays in, Arrays out, int start,
                    const Combine& combine) {
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    using Wide = typename Running<T>::type;
    const auto* x = in[0].as<const T>();
    auto* y = out[0].as<T>();
    const int axis = resolve_axis(op, options.axis, in[0].shape().rank());
    const auto value = [x](std::int64_t i) { return static_cast<Wide>(x[i]); };
    if (options.exclusive)
      scan<T>(in[0].shape(), axis, options.reverse, static_cast<Wide>(start), [&](Wide& running, std::int64_t i) {
        y[i] = convert<T>(running);
        running = combine(running, value(i));
      });
    else
      scan<T>(in[0].shape(), axis, options.reverse, static_cast<Wide>(start), [&](Wide& running, std::int64_t i) {
        running = combine(running, value(i));
        y[i] = convert<T>(running);
      });
  });
}

Specs infer_cumulative(const char* op, const Cumulative& options, const Spec& x) {
  TW_CHECK_USER(x.dtype != boolean, op, "cast to a number first: tw::cast(x, tw::i32)",
                "expected a float or integer dtype, got {}", x.dtype);
  resolve_axis(op, options.axis, x.rank());
  return {x};
}

// Each element's neighbour in a walk along the axis, 0 for the first: x[i - 1], or x[i + 1] if reverse.
Tensor previous(const Tensor& x, int axis, bool reverse) {
  const std::int64_t n = x.shape()[axis];
  if (n == 0) return x;
  Ints begin(x.rank(), 0);
  begin[axis] = reverse ? 1 : 0;
  Paddings paddings(static_cast<std::size_t>(x.rank()));
  paddings[static_cast<std::size_t>(axis)] = reverse ? std::pair(0, 1) : std::pair(1, 0);
  return pad(slice(x, begin, x.shape().with(axis, n - 1)), paddings);
}

Specs infer(const CumulativeSum& op, Inputs in) { return infer_cumulative("cumsum", op.options, in[0]); }

void run(const CumulativeSum& op, Arrays in, Arrays out) {
  run_cumulative("cumsum", op.options, in, out, 0, [](auto a, auto b) { return a + b; });
}

Gradients gradient(const CumulativeSum& op, const Kept&, const Tensors& dy, Needs) {
  Cumulative back = op.options;
  back.reverse = !back.reverse;
  return {cumsum(dy[0], back)};
}

Specs infer(const CumulativeProduct& op, Inputs in) { return infer_cumulative("cumprod", op.options, in[0]); }

void run(const CumulativeProduct& op, Arrays in, Arrays out) {
  run_cumulative("cumprod", op.options, in, out, 1, [](auto a, auto b) { return a * b; });
}

Keeps keeps(const CumulativeProduct& op, Needs) {
  return {.inputs = {0}, .outputs = op.options.exclusive ? Positions{0} : Positions{}};
}

// dx[k] = (product of those before k) * (sum over later results of dy times the product of those between): the sum
// obeys a recurrence, so nothing is ever divided by x.
Gradients gradient(const CumulativeProduct& op, const Kept& kept, const Tensors& dy, Needs) {
  const Tensor x = kept.input(0);
  const int axis = resolve_axis("cumprod", op.options.axis, x.rank());
  const bool back = !op.options.reverse;
  if (op.options.exclusive) return {kept.output(0) * previous(linear_recurrence(x, dy[0], axis, back), axis, back)};
  const Tensor before = cumprod(x, {.axis = axis, .exclusive = true, .reverse = op.options.reverse});
  return {before * linear_recurrence(previous(x, axis, back), dy[0], axis, back)};
}

Specs infer(const LinearRecurrence& op, Inputs in) {
  TW_CHECK_INTERNAL(in[0] == in[1] && is_float(in[0].dtype), "linear_recurrence",
                    "expected two equal float specs, got {} {} and {} {}", in[0].dtype, in[0].shape, in[1].dtype,
                    in[1].shape);
  resolve_axis("linear_recurrence", op.axis, in[0].rank());
  return {in[0]};
}

void run(const LinearRecurrence& op, Arrays in, Arrays out) {
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    using Wide = typename Running<T>::type;
    const auto *a = in[0].as<const T>(), *b = in[1].as<const T>();
    auto* h = out[0].as<T>();
    const int axis = resolve_axis("linear_recurrence", op.axis, in[0].shape().rank());
    scan<T>(in[0].shape(), axis, op.reverse, Wide(0), [&](Wide& running, std::int64_t i) {
      running = static_cast<Wide>(a[i]) * running + static_cast<Wide>(b[i]);
      h[i] = convert<T>(running);
    });
  });
}

Keeps keeps(const LinearRecurrence&, Needs needs) {
  return {.inputs = {0}, .outputs = needs[0] ? Positions{0} : Positions{}};
}

Gradients gradient(const LinearRecurrence& op, const Kept& kept, const Tensors& dy, Needs needs) {
  const int axis = resolve_axis("linear_recurrence", op.axis, kept.input_spec(0).rank());
  const Tensor db = linear_recurrence(previous(kept.input(0), axis, !op.reverse), dy[0], axis, !op.reverse);
  return {needs[0] ? Gradient(db * previous(kept.output(0), axis, op.reverse)) : Gradient(), db};
}

BatchStates batch_rule(const CumulativeSum& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return same_axes_rule(in, states, examples, {resolve_axis("cumsum", op.options.axis, in[0].rank())});
}
BatchStates batch_rule(const CumulativeProduct& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return same_axes_rule(in, states, examples, {resolve_axis("cumprod", op.options.axis, in[0].rank())});
}
BatchStates batch_rule(const LinearRecurrence& op, Inputs in, BatchStates& states, std::int64_t examples) {
  return same_axes_rule(in, states, examples, {resolve_axis("linear_recurrence", op.axis, in[0].rank())});
}

CumulativeSum lifted(const CumulativeSum& op, Inputs in, std::int64_t) {
  return {{resolve_axis("cumsum", op.options.axis, in[0].rank()) + 1, op.options.exclusive, op.options.reverse}};
}
CumulativeProduct lifted(const CumulativeProduct& op, Inputs in, std::int64_t) {
  return {{resolve_axis("cumprod", op.options.axis, in[0].rank()) + 1, op.options.exclusive, op.options.reverse}};
}
LinearRecurrence lifted(const LinearRecurrence& op, Inputs in, std::int64_t) {
  return {resolve_axis("linear_recurrence", op.axis, in[0].rank()) + 1, op.reverse};
}

}  // namespace

TW_DEFINE_OP(cumsum, CumulativeSum)
TW_DEFINE_OP(cumprod, CumulativeProduct)
TW_DEFINE_OP(linear_recurrence, LinearRecurrence)

Tensor cumsum(const Tensor& x, const Cumulative& options) {
  return apply(cumsum_info(), CumulativeSum{options}, {x})[0];
}

Tensor cumprod(const Tensor& x, const Cumulative& options) {
  return apply(cumprod_info(), CumulativeProduct{options}, {x})[0];
}

Tensor linear_recurrence(const Tensor& a, const Tensor& b, std::int64_t axis, bool reverse) {
  return apply(linear_recurrence_info(), LinearRecurrence{axis, reverse}, {a, b})[0];
}

}  // namespace thalweg
