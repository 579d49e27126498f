// Samples of every elementwise row, and its text on double as the oracle.
#include <cmath>

#include "tests/support/sample.h"
#include "tests/support/values.h"
#include "thalweg/backend/cpu/special.h"
#include "thalweg/ops/broadcast.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg::testing {
namespace {

namespace on_double {

using special::digamma, special::floormod, special::polygamma;
using std::abs, std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::ceil, std::cos,
    std::cosh, std::erf, std::erfc, std::exp, std::expm1, std::floor, std::lgamma, std::log, std::log1p, std::pow,
    std::sin, std::sinh, std::sqrt, std::tan, std::tanh;

double round(double x) { return std::nearbyint(x); }
double round_to_bf16(double x) { return BFloat16(static_cast<float>(x)); }
double round_to_f16(double x) { return Half(static_cast<float>(x)); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double max(double x, double z) { return std::isnan(x) ? x : std::isnan(z) ? z : std::max(x, z); }
double min(double x, double z) { return std::isnan(x) ? x : std::isnan(z) ? z : std::min(x, z); }
double where(double c, double x, double z) { return c != 0 ? x : z; }

#define TW_PRIMITIVE1(name, dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) double name(double x);
#define TW_BINARY(name, y, dx, dz, kind, domain) double name(double x, double z);
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) double name(double x, double z, double a);
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"

#define TW_PRIMITIVE1(name, dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) \
  double name(double x) { return y; }
#define TW_BINARY(name, y, dx, dz, kind, domain) \
  double name(double x, double z) { return y; }
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) \
  double name(double x, double z, double a) { return y; }
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"

double call(Row row, double x, [[maybe_unused]] double z, [[maybe_unused]] double a) {
  switch (row) {
// clang-format off
#define TW_PRIMITIVE1(name, dx, kind, domain) case Row::name: return name(x);
#define TW_PRIMITIVE2(name, dx, dz, kind, domain) case Row::name: return name(x, z);
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain) case Row::name: return name(x, z, a);
#define TW_UNARY(name, y, dx, kind, domain) case Row::name: return name(x);
#define TW_BINARY(name, y, dx, dz, kind, domain) case Row::name: return name(x, z);
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) case Row::name: return name(x, z, a);
// clang-format on
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"
    case Row::count: break;
  }
  return 0;
}

}  // namespace on_double

Domain domain_of(const RowInfo& row, int input) {
  const std::string name = row.domain;
  if (row.kind == RowKind::logical || (row.kind == RowKind::select && input == 0)) return Domain::boolean;
  if (name == "order") return input == 0 ? Domain::order : Domain::positive;
  if (name == "apart" && input > 0) return Domain::shifted;
  if (name == "positive") return Domain::positive;
  if (name == "nonzero") return Domain::nonzero;
  if (name == "unit") return Domain::unit;
  if (name == "above_one") return Domain::above_one;
  return Domain::real;
}

// Walks the broadcast result in order and reads each operand where it stands.
std::vector<Tensor> oracle(Row row, const std::vector<Tensor>& in) {
  SmallVector<const Spec*, 3> specs;
  for (const auto& tensor : in) specs.push_back(&tensor.spec());
  const Shape shape = broadcast_shapes("oracle", Inputs({specs.data(), specs.size()}));
  std::vector<std::vector<double>> values;
  for (const auto& tensor : in) values.push_back(as_doubles(tensor));
  std::vector<double> result(static_cast<std::size_t>(shape.size()));
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    double operands[3] = {};
    for (std::size_t k = 0; k < in.size(); ++k) {
      std::int64_t rest = i, offset = 0, stride = 1;
      const Shape& own = in[k].shape();
      for (int axis = shape.rank() - 1, at = own.rank() - 1; axis >= 0; --axis, --at) {
        if (at >= 0 && own[at] != 1) offset += rest % shape[axis] * stride;
        if (at >= 0) stride *= own[at];
        rest /= shape[axis];
      }
      operands[k] = values[k][static_cast<std::size_t>(offset)];
    }
    result[static_cast<std::size_t>(i)] = on_double::call(row, operands[0], operands[1], operands[2]);
  }
  return {Tensor::from(result, shape)};
}

Sample sample(const RowInfo& row, const std::string& label, std::vector<Shape> shapes) {
  Sample sample{.op = row.name,
                .label = label,
                .inputs = {},
                .call =
                    [&row](const std::vector<Tensor>& in) {
                      return std::vector{call_row(row.row, {in.data(), in.size()})};
                    },
                .oracle = [&row](const std::vector<Tensor>& in) { return oracle(row.row, in); }};
  for (int i = 0; i < row.arity; ++i) {
    sample.inputs.push_back({.shape = shapes[static_cast<std::size_t>(i)], .domain = domain_of(row, i)});
    if ((row.row == Row::clip || row.row == Row::polygamma) && i != (row.row == Row::clip ? 0 : 1))
      sample.inputs.back().differentiable = false;
    if (row.row == Row::leaky_relu && i == 1) sample.inputs.back().differentiable = false;
  }
  if (row.kind != RowKind::real && row.kind != RowKind::numeric && row.kind != RowKind::select)
    sample.gradient_order = 0;
  if (row_op(row.row).kind == GradientKind::none) sample.gradient_order = 0;
  return sample;
}

}  // namespace

TW_SAMPLES {
  Samples samples;
  for (int i = 0; i < row_count; ++i) {
    const RowInfo& row = row_info(static_cast<Row>(i));
    const auto add = [&](const char* label, const std::vector<Shape>& shapes) {
      samples.samples.push_back(sample(row, label, shapes));
    };
    add("odd size", {{3, 7}, {3, 7}, {3, 7}});
    add("scalar", {{}, {}, {}});
    add("empty", {{2, 0}, {2, 0}, {2, 0}});
    add("several chunks", {{3, 171}, {3, 171}, {3, 171}});
    add("several tasks", {{300, 350}, {350}, {}});
    samples.samples.back().large = true;
    if (row.arity < 2) continue;
    add("row broadcast", {{4, 5}, {5}, {4, 5}});
    add("column broadcast", {{4, 1}, {4, 33}, {1, 33}});
    add("scalar first", {{}, {2, 3, 4}, {3, 1}});
    add("outer and inner", {{2, 1, 3, 1}, {5, 1, 300}, {1}});
  }
  return samples;
}

}  // namespace thalweg::testing
