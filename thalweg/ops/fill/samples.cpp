#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/fill/fill.h"

using namespace thalweg;
using namespace thalweg::testing;

TW_SAMPLES {
  Samples result;
  for (const auto& shape : {Shape{2, 3}, Shape{}, Shape{0, 4}, Shape{70000}})
    result.samples.push_back(
        {.op = "fill",
         .label = shape.to_string(),
         .inputs = {},
         .call = [shape](const std::vector<Tensor>&) { return std::vector{fill(shape, 3, f32)}; },
         .oracle =
             [shape](const std::vector<Tensor>&) {
               return std::vector{Tensor::from(std::vector<double>(static_cast<std::size_t>(shape.size()), 3), shape)};
             },
         .dtypes = {f32},
         .gradient_order = 0,
         .exact = true});
  return result;
}
