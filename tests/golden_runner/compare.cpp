#include "tests/golden_runner/compare.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "thalweg/core/convert.h"

namespace thalweg::golden {
namespace {

using Value = long double;  // holds every i64 and every f64

std::vector<Value> values_of(const Tensor& tensor) {
  std::vector<Value> values;
  with_type(tensor.dtype(), [&]<class T>(TypeTag<T>) {
    for (const T value : tensor.data<T>()) {
      if constexpr (std::is_integral_v<T>)
        values.push_back(static_cast<Value>(value));
      else
        values.push_back(static_cast<Value>(static_cast<double>(value)));
    }
  });
  return values;
}

bool same_kind(DType a, DType b) { return is_float(a) == is_float(b) && is_integer(a) == is_integer(b); }

// The error as a part of what is allowed; infinite where only equality will do.
Value error_of(Value got, Value want, Value allowed) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  const Value error = std::abs(got - want);
  return std::isfinite(error) && allowed > 0 ? error / allowed : std::numeric_limits<Value>::infinity();
}

std::string place_of(std::int64_t element, const Shape& shape) {
  Ints places(shape.rank(), 0);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) places[axis] = element % shape[axis], element /= shape[axis];
  return to_string(places);
}

}  // namespace

Comparison compare(const Tensor& got, const Tensor& want, DType dtype, const Tolerance& tolerance,
                   bool skip_non_finite) {
  const auto fail = [](std::string problem) {
    return Comparison{std::numeric_limits<double>::infinity(), std::move(problem)};
  };
  if (!got.defined()) return fail("got nothing, want a tensor of shape " + want.shape().to_string());
  if (!same_kind(got.dtype(), want.dtype()) || (is_float(got.dtype()) && got.dtype() != dtype))
    return fail(fmt::format("got dtype {}, want {}", name_of(got.dtype()),
                            name_of(is_float(want.dtype()) ? dtype : want.dtype())));
  if (got.shape() != want.shape())
    return fail("got shape " + got.shape().to_string() + ", want " + want.shape().to_string());

  const auto g = values_of(got), w = values_of(want);
  const auto allowed = [&](Value value) -> Value {
    return is_float(want.dtype()) ? tolerance.absolute + tolerance.relative * std::abs(value) : 0;
  };
  Value worst = 0;
  std::size_t worst_element = 0, outside = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (skip_non_finite && !std::isfinite(w[i])) continue;
    const Value error = error_of(g[i], w[i], allowed(w[i]));
    outside += error > 1;
    if (error > worst) worst = error, worst_element = i;
  }
  Comparison result{static_cast<double>(worst), {}};
  if (outside > 0) {
    const Value want_value = w[worst_element];
    result.problem = fmt::format("{} of {} elements differ, worst at {}: got {:.17g}, want {:.17g}, allowed {:.3g}",
                                 outside, g.size(), place_of(static_cast<std::int64_t>(worst_element), want.shape()),
                                 static_cast<double>(g[worst_element]), static_cast<double>(want_value),
                                 static_cast<double>(allowed(want_value)));
  }
  return result;
}

}  // namespace thalweg::golden
