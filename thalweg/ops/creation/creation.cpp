#include "thalweg/ops/creation/creation.h"

#include <cmath>

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/scalar.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/fill/fill.h"

namespace thalweg {
namespace {

Tensor filled(const char* op, const Shape& shape, Number value, DType dtype) {
  require_whole(op, value, dtype);
  if (tracer() && shape.size() > 64) return fill(shape, value, dtype);
  Tensor tensor = allocate_tensor({dtype, shape}, memory::owner(op));
  cpu::fill_elements(mutable_data(tensor), tensor.size(), ScalarBytes(value, dtype).data(), size_of(dtype));
  return tensor;
}

// Element i is value(i), given as a double or an std::int64_t.
template <class Value>
Tensor generated(const char* op, std::int64_t count, DType dtype, const Value& value) {
  Tensor tensor = allocate_tensor({dtype, {count}}, memory::owner(op));
  with_type(dtype, [&]<class T>(TypeTag<T>) {
    auto* to = static_cast<T*>(mutable_data(tensor));
    parallel_ranges(count, 32 * 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = convert<T>(value(i));
    });
  });
  return tensor;
}

}  // namespace

Tensor zeros(const Shape& shape, DType dtype) { return filled("zeros", shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return filled("ones", shape, 1, dtype); }
Tensor full(const Shape& shape, Number value, DType dtype) { return filled("full", shape, value, dtype); }
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype()); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), x.dtype()); }
Tensor full_like(const Tensor& x, Number value) { return full(x.shape(), value, x.dtype()); }

Tensor linspace(double start, double stop, std::int64_t count, DType dtype) {
  TW_CHECK_USER(count > 0, "linspace", "ask for at least one value", "expected a count of 1 or more, got {}", count);
  TW_CHECK_USER(is_float(dtype), "linspace", "cast the result instead", "expected a float dtype, got {}", dtype);
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  return generated("linspace", count, dtype, [=](std::int64_t i) {
    return i + 1 == count && count > 1 ? stop : start + static_cast<double>(i) * step;
  });
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype) {
  if (columns == -1) columns = rows;
  TW_CHECK_USER(rows >= 0 && columns >= 0, "eye", "sizes are 0 or more", "expected sizes of 0 or more, got {} and {}",
                rows, columns);
  const TraceScope at_once(nullptr);  // a traced fill has no elements to write to
  Tensor tensor = filled("eye", {rows, columns}, 0, dtype);
  cpu::strided_copy(ScalarBytes(1, dtype).data(), {0}, mutable_data(tensor), {columns + 1}, {std::min(rows, columns)},
                    size_of(dtype));
  return tensor;
}

namespace detail {

Tensor arange(Number start, Number stop, Number step, DType dtype) {
  TW_CHECK_USER(step.real != 0, "arange", "a negative step counts down", "expected a step other than 0, got 0");
  TW_CHECK_USER(std::abs((stop.real - start.real) / step.real) < 0x1p59, "arange", "check the limits and the step",
                "expected limits less than 2^59 steps apart, got {} to {} by {}", start.real, stop.real, step.real);
  if (dtype == i64) {
    const std::int64_t distance = stop.integer - start.integer, by = step.integer;
    const std::int64_t count = distance / by + (distance % by != 0);
    return generated("arange", (distance < 0) == (by < 0) ? count : 0, dtype,
                     [=](std::int64_t i) { return start.integer + i * by; });
  }
  const auto count = static_cast<std::int64_t>(std::ceil((stop.real - start.real) / step.real));
  return generated("arange", std::max<std::int64_t>(count, 0), dtype,
                   [=](std::int64_t i) { return start.real + static_cast<double>(i) * step.real; });
}

void require_size(Ints& sizes, int level, std::int64_t size) {
  TW_CHECK_USER(sizes[level] == -1 || sizes[level] == size, "tensor", "give every row the same number of entries",
                "nested lists of level {} must be equally long: expected {} entries, got {}", level, sizes[level],
                size);
  sizes[level] = size;
}

Shape nested_shape(const Ints& sizes) {
  Ints known = sizes;  // levels below an empty list were never seen
  for (auto& size : known) size = std::max<std::int64_t>(size, 0);
  return Shape(known);
}

}  // namespace detail
}  // namespace thalweg
