#pragma once

// Checks for our own sources (never in a public header: it pulls in fmt). The text is built only on failure.
//   TW_CHECK_USER(ok, "matmul", "use {.transpose_b = true}", "inner sizes differ: a {} has {}, b {} has {}", …);
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "thalweg/core/dtype.h"
#include "thalweg/core/error.h"
#include "thalweg/core/shape.h"

namespace thalweg {

[[noreturn]] void throw_error(ErrorCode code, const char* op, const std::string& message, const std::string& hint);

}  // namespace thalweg

// Shapes, integer lists and dtypes print themselves in messages.
namespace thalweg::detail {

struct PlainFormatter {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  static auto write(const std::string& text, Context& context) {
    return std::copy(text.begin(), text.end(), context.out());
  }
};

}  // namespace thalweg::detail

template <>
struct fmt::formatter<thalweg::Shape> : thalweg::detail::PlainFormatter {
  template <class Context>
  auto format(const thalweg::Shape& shape, Context& context) const {
    return write(shape.to_string(), context);
  }
};

template <>
struct fmt::formatter<thalweg::Ints> : thalweg::detail::PlainFormatter {
  template <class Context>
  auto format(const thalweg::Ints& values, Context& context) const {
    return write(thalweg::to_string(values), context);
  }
};

template <>
struct fmt::formatter<thalweg::DType> : thalweg::detail::PlainFormatter {
  template <class Context>
  auto format(thalweg::DType dtype, Context& context) const {
    return write(thalweg::name_of(dtype), context);
  }
};

#define TW_FAIL(code, op, hint, ...) \
  ::thalweg::throw_error(::thalweg::ErrorCode::code, op, fmt::format(__VA_ARGS__), hint)

#define TW_CHECK(code, condition, op, hint, ...) \
  do {                                           \
    if (!(condition)) [[unlikely]]               \
      TW_FAIL(code, op, hint, __VA_ARGS__);      \
  } while (false)

#define TW_CHECK_USER(condition, op, hint, ...) TW_CHECK(invalid_argument, condition, op, hint, __VA_ARGS__)

#define TW_CHECK_INTERNAL(condition, op, ...) \
  TW_CHECK(internal, condition, op, "this is a fault in the library; please report it with the program", __VA_ARGS__)
