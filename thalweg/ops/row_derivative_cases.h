// The cases of a switch over a row that return its derivative by `input`, in terms of x, z, a, y, dy and none.
// clang-format off
#define TW_PRIMITIVE1(name, dx, kind, domain) TW_UNARY(name, , dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain) TW_BINARY(name, , dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain) TW_TERNARY(name, , dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) \
  case Row::name: return dx;
#define TW_BINARY(name, y, dx, dz, kind, domain) \
  case Row::name: if (input == 0) return dx; return dz;
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) \
  case Row::name: if (input == 0) return dx; if (input == 1) return dz; return da;
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"
// clang-format on
