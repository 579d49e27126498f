#include "tests/support/sample.h"
#include "thalweg/ops/registry.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

Sample sample(const char* label, std::int64_t depth, std::int64_t m, std::int64_t n) {
  return {.op = "product_squares",
          .label = label,
          .inputs = {{.shape = {depth, m}}, {.shape = {depth, n}}},
          .call =
              [](const std::vector<Tensor>& in) {
                return std::vector<Tensor>(apply(product_squares_info(), product_squares_info().make().get(), in));
              },
          .dtypes = {f32, f64}};
}

Sample large(const char* label, std::int64_t depth, std::int64_t m, std::int64_t n) {
  Sample result = sample(label, depth, m, n);
  result.large = true;
  return result;
}

}  // namespace

TW_SAMPLES {
  return {
      .samples = {sample("a few rows", 3, 5, 4), sample("whole blocks of rows", 8, 3, 2), sample("one row", 1, 7, 1),
                  sample("no rows", 0, 3, 2), sample("of nothing", 2, 0, 3), large("several ranges", 33, 1100, 530)},
      .mistakes = {}};
}
