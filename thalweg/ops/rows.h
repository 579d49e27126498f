#pragma once

// The rows of elementwise.def as values: an instruction set for elementwise programs.
#include <cstdint>
#include <string_view>

namespace thalweg {

enum class Row : std::uint8_t {
#define TW_PRIMITIVE1(name, dx, kind, domain) name,
#define TW_PRIMITIVE2(name, dx, dz, kind, domain) name,
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain) name,
#define TW_UNARY(name, y, dx, kind, domain) name,
#define TW_BINARY(name, y, dx, dz, kind, domain) name,
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) name,
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"
  count
};

inline constexpr int row_count = static_cast<int>(Row::count);

enum class RowKind : std::uint8_t { real, numeric, compare, test, logical, select };

struct RowInfo {
  Row row;
  const char* name;
  int arity;
  RowKind kind;
  const char* domain;  // where the generated tests sample it
};

const RowInfo& row_info(Row row);
bool is_light(Row row);                          // a few of the processor's instructions: no exponential or the like
const RowInfo* find_row(std::string_view name);  // null: none of that name

}  // namespace thalweg
