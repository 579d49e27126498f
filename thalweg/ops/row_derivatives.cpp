// The derivative column of elementwise.def in public ops, for backward passes that are themselves recorded.
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/row_gradients.h"

namespace thalweg {
namespace {

[[maybe_unused]] Tensor max(const Operand& x, const Operand& z) { return maximum(x, z); }
[[maybe_unused]] Tensor min(const Operand& x, const Operand& z) { return minimum(x, z); }

}  // namespace

Tensor row_gradient_as_ops(Row row, int input, const Tensor (&values)[5]) {
  [[maybe_unused]] const auto& [x, z, a, y, dy] = values;
  const Tensor none;
  switch (row) {
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
    case Row::count: break;
  }
  return none;
}

}  // namespace thalweg
