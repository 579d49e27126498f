#include <cmath>

#include "tests/support/sample.h"
#include "thalweg/core/philox.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/dropout/dropout.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

Call drop(double rate) {
  return [rate](In in) { return std::vector{dropout(in[0], rate, {.seed = 11})}; };
}

Call oracle(double rate) {
  return [rate](In in) {
    auto values = in[0].to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool stays = random::words({11, ~std::uint64_t{0}}, i / 4)[i % 4] * 0x1p-32 >= rate;
      values[i] = stays ? values[i] / (1 - rate) : 0;
    }
    return std::vector{Tensor::from(values, in[0].shape())};
  };
}

Sample sample(const char* label, Shape shape, double rate) {
  return {.op = "dropout", .label = label, .inputs = {{shape}}, .call = drop(rate), .oracle = oracle(rate)};
}

}  // namespace

TW_SAMPLES {
  return {.samples = {sample("a quarter", {7, 9}, 0.25), sample("nothing", {5}, 0), sample("everything", {3, 2}, 1),
                      sample("empty", {0, 3}, 0.5), sample("several tasks", {150, 333}, 0.5)},
          .mistakes = {{.op = "dropout",
                        .label = "rate above 1",
                        .call = [] { dropout(ones({2}), 1.5); },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[dropout]", "expected a rate of 0 to 1", "got 1.5"}},
                       {.op = "dropout",
                        .label = "integers",
                        .call = [] { dropout(arange(3), 0.5); },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[dropout]", "float", "i64"}}}};
}
