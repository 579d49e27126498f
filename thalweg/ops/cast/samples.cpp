#include "tests/support/sample.h"
#include "thalweg/ops/cast/cast.h"

using namespace thalweg;
using namespace thalweg::testing;

TW_SAMPLES {
  using In = const std::vector<Tensor>&;
  // Drawn values have at most eight significant bits, so that going through bf16 and back changes nothing.
  return {.samples = {{.op = "cast",
                       .label = "through bf16",
                       .inputs = {{{3, 5}}},
                       .call = [](In in) { return std::vector{cast(cast(in[0], bf16), in[0].dtype())}; },
                       .oracle = [](In in) { return std::vector{in[0]}; },
                       .gradient_order = 0,
                       .exact = true},
                      {.op = "cast",
                       .label = "through f16",
                       .inputs = {{{2, 0}}},
                       .call = [](In in) { return std::vector{cast(cast(in[0], f16), in[0].dtype())}; },
                       .oracle = [](In in) { return std::vector{in[0]}; },
                       .gradient_order = 0,
                       .exact = true}},
          .mistakes = {{.op = "cast",
                        .label = "dtypes that do not meet",
                        .call = [] { promote("add", i32, boolean); },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[add]", "i32", "boolean", "tw::cast"}}}};
}
