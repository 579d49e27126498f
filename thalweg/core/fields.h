#pragma once

// The attributes of an op, by name: for printing, comparing, and files. An op with attributes lists them once, beside
// its struct:
//   struct MatmulOp : Matmul {};
//   TW_FIELDS(MatmulOp, transpose_a, transpose_b)
// A field inside of a field is named with a dot (options.axis), and known by what follows the last one.
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "thalweg/core/dtype.h"
#include "thalweg/core/shape.h"

namespace thalweg {

struct Number;

// Walks the fields of an op. It may read them (printing, hashing, writing a file) or replace them (reading a file). A
// field that is only read is not written, so that threads may share the op.
class FieldVisitor {
 public:
  virtual void integer(std::string_view name, std::int64_t& value) = 0;
  virtual void real(std::string_view name, double& value) = 0;
  virtual void integers(std::string_view name, std::vector<std::int64_t>& values) = 0;
  virtual void reals(std::string_view name, std::vector<double>& values) = 0;
  virtual void text(std::string_view name, std::string& value) = 0;

 protected:
  ~FieldVisitor() = default;
};

// A number is whole (1) or not (0), then itself.
void visit(FieldVisitor& visitor, std::string_view name, Number& number);

namespace detail {

// The next name of "a, b.c, d"; the list is shortened by it.
constexpr std::string_view next_name(std::string_view& list) {
  const std::size_t comma = list.find(',');
  std::string_view name = list.substr(0, comma);
  name.remove_prefix(name.rfind('.') + 1);
  list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  while (!list.empty() && list.front() == ' ') list.remove_prefix(1);
  return name;
}

template <class T>
void replace(T& field, const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    if (std::bit_cast<Bits>(field) != std::bit_cast<Bits>(value)) field = value;  // -0 is not 0 here, and NaN is NaN
  } else {
    if (!(field == value)) field = value;
  }
}

template <class T>
void visit_field(FieldVisitor& visitor, std::string_view name, T& field) {
  if constexpr (std::is_floating_point_v<T>) {
    double value = field;
    visitor.real(name, value);
    replace(field, static_cast<T>(value));
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    auto value = static_cast<std::int64_t>(field);
    visitor.integer(name, value);
    replace(field, static_cast<T>(value));
  } else if constexpr (std::is_same_v<T, Ints> || std::is_same_v<T, Shape> ||
                       std::is_same_v<T, std::vector<std::int64_t>>) {
    std::vector<std::int64_t> values(field.begin(), field.end());
    visitor.integers(name, values);
    replace(field, T(values));
  } else if constexpr (requires { field.has_value(); }) {
    std::int64_t given = field.has_value();
    visitor.integer(name, given);
    auto value = field.value_or(typename T::value_type{});
    if (given != 0) visit_field(visitor, name, value);
    replace(field, given != 0 ? T(value) : T());
  } else {
    visit(visitor, name, field);  // a type of one's own has a visit function beside it
  }
}

template <class... Fields>
void visit_fields(FieldVisitor& visitor, std::string_view names, std::tuple<Fields&...> fields) {
  std::apply([&](auto&... field) { (visit_field(visitor, next_name(names), field), ...); }, fields);
}

}  // namespace detail

namespace fields {

// "transpose_a = 0, transpose_b = 1"
std::string print(void (*visit)(void*, FieldVisitor&), const void* op);
// Equal for ops with equal fields; the values one after the other.
std::string key(void (*visit)(void*, FieldVisitor&), const void* op);

}  // namespace fields

#define TW_TIE_1(op, a) op.a
#define TW_TIE_2(op, a, ...) op.a, TW_TIE_1(op, __VA_ARGS__)
#define TW_TIE_3(op, a, ...) op.a, TW_TIE_2(op, __VA_ARGS__)
#define TW_TIE_4(op, a, ...) op.a, TW_TIE_3(op, __VA_ARGS__)
#define TW_TIE_5(op, a, ...) op.a, TW_TIE_4(op, __VA_ARGS__)
#define TW_TIE_6(op, a, ...) op.a, TW_TIE_5(op, __VA_ARGS__)
#define TW_TIE_7(op, a, ...) op.a, TW_TIE_6(op, __VA_ARGS__)
#define TW_TIE_8(op, a, ...) op.a, TW_TIE_7(op, __VA_ARGS__)
#define TW_TIE_9(op, a, ...) op.a, TW_TIE_8(op, __VA_ARGS__)
#define TW_TIE_PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, name, ...) name

#define TW_FIELDS(Op, ...)                                                                                      \
  [[maybe_unused]] void visit_op(Op& op, ::thalweg::FieldVisitor& visitor) {                                    \
    ::thalweg::detail::visit_fields(                                                                            \
        visitor, #__VA_ARGS__,                                                                                  \
        std::tie(TW_TIE_PICK(__VA_ARGS__, TW_TIE_9, TW_TIE_8, TW_TIE_7, TW_TIE_6, TW_TIE_5, TW_TIE_4, TW_TIE_3, \
                             TW_TIE_2, TW_TIE_1, )(op, __VA_ARGS__)));                                          \
  }

}  // namespace thalweg
