#pragma once

// Elementwise ops with broadcasting: one public function per row of elementwise.def.
#include "thalweg/ops/operand.h"

namespace thalweg {

#define TW_PRIMITIVE1(name, dx, kind, domain) TW_UNARY(name, , dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain) TW_BINARY(name, , dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain) TW_TERNARY(name, , dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) TW_API Tensor name(const Tensor& x);
#define TW_BINARY(name, y, dx, dz, kind, domain) TW_API Tensor name(const Operand& x, const Operand& z);
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) \
  TW_API Tensor name(const Operand& x, const Operand& z, const Operand& a);
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"

struct Gelu {
  bool approximate = false;  // true: the tanh form
};
TW_API Tensor gelu(const Tensor& x, const Gelu& options = {});
TW_API Tensor clip_by_value(const Tensor& x, const Operand& low, const Operand& high);

TW_API Tensor operator-(const Tensor& x);
inline Tensor operator+(const Operand& x, const Operand& z) { return add(x, z); }
inline Tensor operator-(const Operand& x, const Operand& z) { return subtract(x, z); }
inline Tensor operator*(const Operand& x, const Operand& z) { return multiply(x, z); }
inline Tensor operator/(const Operand& x, const Operand& z) { return divide(x, z); }
inline Tensor operator==(const Operand& x, const Operand& z) { return equal(x, z); }
inline Tensor operator!=(const Operand& x, const Operand& z) { return not_equal(x, z); }
inline Tensor operator<(const Operand& x, const Operand& z) { return less(x, z); }
inline Tensor operator<=(const Operand& x, const Operand& z) { return less_equal(x, z); }
inline Tensor operator>(const Operand& x, const Operand& z) { return greater(x, z); }
inline Tensor operator>=(const Operand& x, const Operand& z) { return greater_equal(x, z); }
inline Tensor operator&(const Operand& x, const Operand& z) { return logical_and(x, z); }
inline Tensor operator|(const Operand& x, const Operand& z) { return logical_or(x, z); }
inline Tensor operator!(const Tensor& x) { return logical_not(x); }

}  // namespace thalweg
