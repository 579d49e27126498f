#include <algorithm>

#include "tests/support/calls.h"
#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/fused/fused_each.h"
#include "thalweg/ops/fused/fused_product.h"
#include "thalweg/ops/fused/fused_reduce.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_gradients.h"
#include "thalweg/ops/row_ops.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

// The backward program of a row; its reference runs the same rows one by one.
Sample sample(const char* label, Row row, Needs needs, const std::vector<Shape>& shapes) {
  const RowGradient& gradient = row_gradient(row, needs);
  Sample result{.op = "fused", .label = label, .inputs = {}, .call = [&gradient](const std::vector<Tensor>& in) {
                  return std::vector<Tensor>(run_fused(gradient.program, Tensors(in)));
                }};
  for (std::size_t i = 0; i < gradient.reads.size(); ++i)
    result.inputs.push_back({.shape = shapes[i], .domain = Domain::positive});
  return result;
}

// a + b * rate over several sets, whose rate is one number.
Sample on_each(const char* label, const std::vector<Shape>& shapes, bool large = false) {
  const Program program{3, {}, {{Row::multiply, {1, 2, -1}}, {Row::add, {0, 3, -1}}}, {4}};
  const auto fused = make_fused(program, {});
  const auto op = make_fused_each(fused.get(), static_cast<std::int64_t>(shapes.size()));
  Sample result{.op = "fused_each", .label = label, .inputs = {}, .call = [op](const std::vector<Tensor>& in) {
                  return std::vector<Tensor>(apply(fused_each_info(), op.get(), in));
                }};
  result.large = large;
  for (const auto& shape : shapes)
    result.inputs.insert(result.inputs.end(), {{.shape = shape}, {.shape = shape}, {.shape = {}}});
  return result;
}

// w - rate * product * w, and the product.
Sample over_product(const char* label, std::int64_t depth, std::int64_t m, std::int64_t n, bool large = false) {
  const Program program{
      3, {}, {{Row::multiply, {0, 1, -1}}, {Row::multiply, {3, 2, -1}}, {Row::subtract, {0, 4, -1}}}, {5, 1}};
  const auto fused = make_fused(program, {});
  const auto op = make_fused_product(fused.get(), 1);
  Sample result{.op = "fused_product",
                .label = label,
                .inputs = {{.shape = {depth, m}}, {.shape = {depth, n}}, {.shape = {m, n}}, {.shape = {}}},
                .call =
                    [op](const std::vector<Tensor>& in) {
                      return std::vector<Tensor>(apply(fused_product_info(), op.get(), in));
                    },
                .dtypes = {f32, f64}};
  result.large = large;
  return result;
}

using Reduction = Tensor (*)(const Tensor&, const Reduce&);

// x * y, or x * x, reduced as it is computed.
Sample reduced(const char* label, Reduction reduce, const Axes& axes, const std::vector<Shape>& shapes) {
  Program program{static_cast<int>(shapes.size()), {}, {{Row::multiply, {0, shapes.size() > 1 ? 1 : 0, -1}}}, {}};
  program.outputs = {program.inputs};
  // The reduction's attributes are those of a call on as many axes.
  const Tensor any = ones(Shape(Ints(
      std::max_element(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) { return a.rank() < b.rank(); })
          ->rank(),
      1)));
  const auto call = record_calls([&] { reduce(any, {.axes = axes}); }).at(0);
  const auto op = make_fused_reduce(std::make_shared<const Program>(program), *call.info, call.op);
  Sample result{
      .op = "fused_reduce",
      .label = label,
      .inputs = {},
      .call =
          [op](const std::vector<Tensor>& in) { return std::vector<Tensor>(apply(fused_reduce_info(), op.get(), in)); },
      .dtypes = {f32, f64}};
  for (const auto& shape : shapes) result.inputs.push_back({.shape = shape});
  return result;
}

Sample reduced_large(const char* label, const Axes& axes, const std::vector<Shape>& shapes) {
  Sample result = reduced(label, reduce_sum, axes, shapes);
  result.large = true;
  return result;
}

}  // namespace

TW_SAMPLES {
  return {
      .samples = {sample("one output", Row::gelu_tanh, {0}, {{5, 7}, {5, 7}}),
                  sample("two outputs, broadcast", Row::divide, {0, 1}, {{7}, {5, 7}, {5, 7}}),
                  sample("three outputs", Row::weighted_cross_entropy, {0, 1, 2}, {{3, 300}, {3, 300}, {}, {3, 300}}),
                  sample("empty", Row::multiply, {0, 1}, {{0, 2}, {0, 2}, {0, 2}}),
                  on_each("one set", {{5, 7}}),
                  on_each("several sets", {{5, 7}, {3}, {}, {17}, {1}}),
                  on_each("several sets, one empty", {{0, 2}, {3}}),
                  on_each("several tasks", {{200, 200}, {7}, {33000}}, true),
                  over_product("a few rows", 2, 5, 7),
                  over_product("one row", 1, 3, 2),
                  over_product("of nothing", 2, 0, 3),
                  over_product("no rows", 0, 3, 2),
                  over_product("several tasks, depth and columns in parts", 100, 33, 700, true),
                  over_product("as wide as it is long", 100, 290, 330, true),
                  over_product("little deeper than a tile", 40, 290, 330, true),
                  over_product("deeper than panels are at once", 300, 70, 90, true),
                  over_product("as deep as it may be", 512, 50, 130, true),
                  reduced("sum of squares", reduce_sum, Axes(), {{5, 7}}),
                  reduced("rows, broadcast", reduce_mean, {1}, {{5, 7}, {7}}),
                  reduced("columns, broadcast", reduce_sum, {0}, {{5, 1}, {5, 7}}),
                  reduced("axes apart", reduce_max, {0, 2}, {{3, 4, 5}, {4, 1}}),
                  reduced("product", reduce_prod, {1}, {{3, 4}}),
                  reduced("smallest", reduce_min, {0}, {{3, 4}, {4}}),
                  reduced("scalar", reduce_sum, Axes(), {{}}),
                  reduced("of nothing", reduce_sum, {0}, {{0, 2}, {2}}),
                  reduced_large("several tasks", Axes(), {{300, 1111}}),
                  reduced_large("several tasks of columns", {0}, {{3000, 300}, {300}})},
      .mistakes = {}};
}
