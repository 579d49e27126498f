#include "tests/support/sample.h"
#include "thalweg/ops/stop_gradient/stop_gradient.h"

using namespace thalweg;
using namespace thalweg::testing;

TW_SAMPLES {
  const Call same = [](const std::vector<Tensor>& in) { return in; };
  const Call call = [](const std::vector<Tensor>& in) { return std::vector{stop_gradient(in[0])}; };
  return {.samples = {{.op = "stop_gradient",
                       .label = "values",
                       .inputs = {{{2, 3}}},
                       .call = call,
                       .oracle = same,
                       .gradient_order = 0,
                       .exact = true},
                      {.op = "stop_gradient",
                       .label = "empty",
                       .inputs = {{{0}}},
                       .call = call,
                       .oracle = same,
                       .gradient_order = 0,
                       .exact = true}},
          .mistakes = {}};
}
