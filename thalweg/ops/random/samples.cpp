#include "tests/support/sample.h"
#include "thalweg/core/philox.h"
#include "thalweg/ops/random/random.h"

using namespace thalweg;
using namespace thalweg::testing;

// The numbers are words of the generator: element i is word i % 4 of block i / 4.
TW_SAMPLES {
  const Shape shape{3, 5};
  const auto words = [shape](const std::vector<Tensor>&) {
    std::vector<double> values;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(shape.size()); ++i) {
      const auto block = random::words({.seed = 9, .ordinal = ~std::uint64_t{0}}, i / 4);
      values.push_back(static_cast<double>(static_cast<float>(-1 + (block[i % 4] + 0.5) * 0x1p-32 * 3)));
    }
    return std::vector{Tensor::from(values, shape)};
  };
  return {.samples = {{.op = "random_tensor",
                       .label = "uniform with a seed",
                       .inputs = {},
                       .call =
                           [shape](const std::vector<Tensor>&) {
                             return std::vector{random::uniform(shape, {.low = -1, .high = 2, .seed = 9})};
                           },
                       .oracle = words,
                       .dtypes = {f32},
                       .gradient_order = 0}},
          .mistakes = {}};
}
