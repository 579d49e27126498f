#pragma once

// The row language on Expression: every function and operator writes an instruction. For files that write programs,
// with `using namespace rows`.
#include "thalweg/ops/expression.h"

namespace thalweg::rows {

using E = const Expression&;
#define TW_PRIMITIVE1(name, dx, kind, domain) TW_UNARY(name, , dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain) TW_BINARY(name, , dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain) TW_TERNARY(name, , dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) \
  inline Expression name(E x) { return Expression::call(Row::name, x); }
#define TW_BINARY(name, y, dx, dz, kind, domain) \
  inline Expression name(E x, E z) { return Expression::call(Row::name, x, z); }
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) \
  inline Expression name(E x, E z, E a) { return Expression::call(Row::name, x, z, a); }
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"

}  // namespace thalweg::rows

namespace thalweg {

// Found wherever an Expression stands.
#define TW_OPERATOR(symbol, name) \
  inline Expression operator symbol(const Expression& x, const Expression& z) { return rows::name(x, z); }
TW_OPERATOR(+, add)
TW_OPERATOR(-, subtract)
TW_OPERATOR(*, multiply)
TW_OPERATOR(/, divide)
TW_OPERATOR(==, equal)
TW_OPERATOR(<, less)
TW_OPERATOR(<=, less_equal)
TW_OPERATOR(>, greater)
TW_OPERATOR(>=, greater_equal)
TW_OPERATOR(&, logical_and)
#undef TW_OPERATOR
inline Expression operator-(const Expression& x) { return rows::neg(x); }

}  // namespace thalweg
