#pragma once

// New tensors that depend on no other.
#include <initializer_list>
#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

TW_API Tensor zeros(const Shape& shape, DType dtype = f32);
TW_API Tensor ones(const Shape& shape, DType dtype = f32);
// Every element is `value`; without a dtype that of the C++ number: 0.5f is f32, 0.5 is f64, 1 is i32.
TW_API Tensor full(const Shape& shape, Number value, DType dtype);
template <class T>
requires std::is_arithmetic_v<T> Tensor full(const Shape& shape, T value) {
  return full(shape, Number(value), dtype_of<T>());
}
TW_API Tensor zeros_like(const Tensor& x);
TW_API Tensor ones_like(const Tensor& x);
TW_API Tensor full_like(const Tensor& x, Number value);

namespace detail {

TW_API Tensor arange(Number start, Number stop, Number step, DType dtype);

template <class T>
constexpr DType arange_dtype() {
  if constexpr (std::is_integral_v<T>)
    return DType::i64;
  else
    return dtype_of<T>();
}

}  // namespace detail

// start, start + step, … as long as it is before stop. Integers give i64, float f32, double f64.
template <class A, class B, class C = int, class T = std::common_type_t<A, B, C>>
requires std::is_arithmetic_v<T> Tensor arange(A start, B stop, C step = 1) {
  return detail::arange(start, stop, step, detail::arange_dtype<T>());
}
template <class T>
requires std::is_arithmetic_v<T> Tensor arange(T stop) { return arange(T(0), stop); }

// `count` evenly spaced values; both ends are among them.
TW_API Tensor linspace(double start, double stop, std::int64_t count, DType dtype = f32);
// Ones on the diagonal of [rows, columns]; -1: as many columns as rows.
TW_API Tensor eye(std::int64_t rows, std::int64_t columns = -1, DType dtype = f32);

namespace detail {

TW_API void require_size(Ints& sizes, int level, std::int64_t size);
TW_API Shape nested_shape(const Ints& sizes);

// The values of nested lists in row order; lists of one level must be equally long.
template <class T>
class NestedValues {
 public:
  explicit NestedValues(int rank) : sizes_(rank, -1) {}
  void add(T value, int) { values_.push_back(value); }
  template <class Entry>
  void add(const std::initializer_list<Entry>& list, int level) {
    require_size(sizes_, level, static_cast<std::int64_t>(list.size()));
    for (const auto& entry : list) add(entry, level + 1);
  }
  Tensor tensor() const { return Tensor::from(values_, nested_shape(sizes_)); }

 private:
  Ints sizes_;
  std::vector<T> values_;
};

template <class T, class Nested>
Tensor from_nested(const Nested& list, int rank) {
  NestedValues<T> values(rank);
  values.add(list, 0);
  return values.tensor();
}

}  // namespace detail

// The values of nested lists, or of one number; their C++ type decides the dtype: {{1.f, 2.f}, {3.f, 4.f}} is
// f32 [2, 2].
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value) { return Tensor::from(std::vector<T>{value}, {}); }
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<T> list) {
  return detail::from_nested<T>(list, 1);
}
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(std::initializer_list<std::initializer_list<T>> list) {
  return detail::from_nested<T>(list, 2);
}
template <class T>
requires std::is_arithmetic_v<T> Tensor
tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> list) {
  return detail::from_nested<T>(list, 3);
}
template <class T>
requires std::is_arithmetic_v<T> Tensor
tensor(std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>> list) {
  return detail::from_nested<T>(list, 4);
}

}  // namespace thalweg
