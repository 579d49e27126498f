#include <algorithm>
#include <limits>

#include "thalweg/backend/cpu/row_kernels.h"
#include "thalweg/core/check.h"

namespace thalweg {
namespace {

// Overflow wraps around, as in TensorFlow; unsigned arithmetic makes that defined.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
T floor_divide(const char* op, T x, T z) {
  TW_CHECK_USER(z != 0, op, "make sure that no divisor is zero",
                "integer division by zero: expected divisors other than 0, got 0");
  if constexpr (std::is_signed_v<T>) {
    if (z == -1) return static_cast<T>(Wide<T>(0) - static_cast<Wide<T>>(x));
    const T quotient = static_cast<T>(x / z);
    return static_cast<T>(quotient - (x % z != 0 && (x < 0) != (z < 0)));
  } else {
    return static_cast<T>(x / z);
  }
}

template <class T, class F>
void loop(const T* x, const T* z, const T* a, T* y, std::size_t n, F f) {
  for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<T>(f(x[i], z ? z[i] : T(0), a ? a[i] : T(0)));
}

#define TW_INTEGER(name, expression)                                                                   \
  case Row::name:                                                                                      \
    return [](const T* x, const T* z, const T* a, T* y, std::size_t n) {                               \
      loop(x, z, a, y, n, [](T p, [[maybe_unused]] T q, [[maybe_unused]] T r) { return expression; }); \
    };

template <class T>
RowKernel<T> find(Row row) {
  using W = Wide<T>;
  switch (row) {
    TW_INTEGER(add, W(p) + W(q))
    TW_INTEGER(subtract, W(p) - W(q))
    TW_INTEGER(multiply, W(p) * W(q))
    TW_INTEGER(maximum, std::max(p, q))
    TW_INTEGER(minimum, std::min(p, q))
    TW_INTEGER(squared_difference, (W(p) - W(q)) * (W(p) - W(q)))
    TW_INTEGER(floordiv, floor_divide("floordiv", p, q))
    TW_INTEGER(floormod, W(p) - W(q) * W(floor_divide("floormod", p, q)))
    TW_INTEGER(neg, W(0) - W(p))
    TW_INTEGER(abs, p < T(0) ? W(0) - W(p) : W(p))
    TW_INTEGER(sign, (p > T(0)) - (p < T(0)))
    TW_INTEGER(square, W(p) * W(p))
    TW_INTEGER(clip, std::min(std::max(p, q), r))
    TW_INTEGER(equal, p == q)
    TW_INTEGER(not_equal, p != q)
    TW_INTEGER(less, p < q)
    TW_INTEGER(less_equal, p <= q)
    TW_INTEGER(greater, p > q)
    TW_INTEGER(greater_equal, p >= q)
    TW_INTEGER(logical_and, p != 0 && q != 0)
    TW_INTEGER(logical_or, p != 0 || q != 0)
    TW_INTEGER(logical_not, p == 0)
    TW_INTEGER(where, p != 0 ? q : r)
    default: return nullptr;
  }
}

#undef TW_INTEGER

}  // namespace

template <class T>
RowKernel<T> integer_row_kernel(Row row) {
  return find<T>(row);
}

template RowKernel<std::int32_t> integer_row_kernel(Row);
template RowKernel<std::int64_t> integer_row_kernel(Row);
template RowKernel<std::uint8_t> integer_row_kernel(Row);

}  // namespace thalweg
