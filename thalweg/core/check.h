#pragma once

// Checks for our own sources (never in a public header: it pulls in fmt). The text is built only on failure.
//   TW_CHECK_USER(ok, "matmul", "use {.transpose_b = true}", "inner sizes differ: a {} has {}, b {} has {}", …);
#include <fmt/core.h>

#include "thalweg/core/error.h"

namespace thalweg {

[[noreturn]] void throw_error(ErrorCode code, const char* op, const std::string& message, const std::string& hint);

}  // namespace thalweg

#define TW_FAIL(code, op, hint, ...) ::thalweg::throw_error(::thalweg::ErrorCode::code, op, fmt::format(__VA_ARGS__), hint)

#define TW_CHECK(code, condition, op, hint, ...)                    \
  do {                                                              \
    if (!(condition)) [[unlikely]] TW_FAIL(code, op, hint, __VA_ARGS__); \
  } while (false)

#define TW_CHECK_USER(condition, op, hint, ...) TW_CHECK(invalid_argument, condition, op, hint, __VA_ARGS__)

#define TW_CHECK_INTERNAL(condition, op, ...) \
  TW_CHECK(internal, condition, op, "this is a fault in the library; please report it with the program", __VA_ARGS__)
