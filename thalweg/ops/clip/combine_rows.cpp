#include "thalweg/ops/clip/combine_rows.h"

#include <algorithm>
#include <vector>

#include "thalweg/core/check.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct SumRows {
  std::int64_t count;
};
struct TakeRows {};

void check_places(const char* op, const Spec& x, const Spec& places) {
  TW_CHECK_INTERNAL(x.rank() > 0 && places.dtype == i64 && places.rank() == 1, op,
                    "expected rows and i64 places, got {} and {} {}", x.shape, places.dtype, places.shape);
}

// body(begin, end): columns of a row of `width`, in tasks of about 32 Ki elements over all rows.
template <class Body>
void for_columns(std::int64_t rows, std::int64_t width, const Body& body) {
  parallel_ranges(width, std::max<std::int64_t>(16, 32 * 1024 / std::max<std::int64_t>(1, rows)), body);
}

Specs infer(const SumRows& op, Inputs in) {
  check_places("sum_rows", in[0], in[1]);
  return {Spec{in[0].dtype, in[0].shape.with(0, op.count)}};
}

void run(const SumRows& op, Arrays in, Arrays out) {
  const Shape& shape = in[0].shape();
  const std::int64_t n = shape[0], width = shape.product(1, shape.rank());
  const auto* places = in[1].as<const std::int64_t>();
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    const auto* x = in[0].as<const T>();
    auto* y = out[0].as<T>();
    for_columns(n, width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < op.count; ++row) std::fill(y + row * width + begin, y + row * width + end, T());
      for (std::int64_t i = 0; i < n; ++i) {
        auto* to = y + places[i] * width;
        for (std::int64_t c = begin; c < end; ++c) to[c] = convert<T>(to[c] + x[i * width + c]);
      }
    });
  });
}

Keeps keeps(const SumRows&, Needs) { return {.inputs = {1}, .outputs = {}}; }

Gradients gradient(const SumRows&, const Kept& kept, const Tensors& dy, Needs) {
  return {take_rows(dy[0], kept.input(1)), Gradient()};
}

Specs infer(const TakeRows&, Inputs in) {
  check_places("take_rows", in[0], in[1]);
  return {Spec{in[0].dtype, in[0].shape.with(0, in[1].shape[0])}};
}

void run(const TakeRows&, Arrays in, Arrays out) {
  const Shape& shape = out[0].shape();
  const std::int64_t width = shape.product(1, shape.rank());
  const auto* places = in[1].as<const std::int64_t>();
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    for_columns(shape[0], width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < shape[0]; ++i)
        std::copy_n(in[0].as<const T>() + places[i] * width + begin, end - begin, out[0].as<T>() + i * width + begin);
    });
  });
}

Keeps keeps(const TakeRows&, Needs) { return {.inputs = {1}, .outputs = {}}; }

Gradients gradient(const TakeRows&, const Kept& kept, const Tensors& dy, Needs) {
  return {sum_rows(dy[0], kept.input(1), kept.input_spec(0).shape[0]), Gradient()};
}

}  // namespace

TW_DEFINE_OP(sum_rows, SumRows)
TW_DEFINE_OP(take_rows, TakeRows)

Tensor sum_rows(const Tensor& x, const Tensor& places, std::int64_t count) {
  return apply(sum_rows_info(), SumRows{count}, {x, places})[0];
}

Tensor take_rows(const Tensor& x, const Tensor& places) { return apply(take_rows_info(), TakeRows{}, {x, places})[0]; }

Gradient combine_rows(const Gradient& gradient) {
  if (!gradient.defined() || !gradient.is_sparse()) return gradient;
  const auto rows = cast(gradient.indices(), i64).to_vector<std::int64_t>();
  std::vector<std::int64_t> distinct = rows;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<std::int64_t> places;  // of each row among the distinct ones
  for (std::int64_t row : rows)
    places.push_back(std::lower_bound(distinct.begin(), distinct.end(), row) - distinct.begin());
  const auto count = static_cast<std::int64_t>(distinct.size());
  const Tensor sums =
      sum_rows(gradient.values(), Tensor::from(places, {static_cast<std::int64_t>(rows.size())}), count);
  return Gradient(sums, Tensor::from(distinct, {count}), gradient.shape());
}

}  // namespace thalweg
