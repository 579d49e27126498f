#include "tests/support/sample.h"
#include "thalweg/ops/reshape/reshape.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

// A reshape moves nothing: the oracle is the same values under the expected shape.
Call same_values(Shape shape) {
  return [shape](const std::vector<Tensor>& in) { return std::vector{Tensor::from(in[0].to_vector<double>(), shape)}; };
}

}  // namespace

TW_SAMPLES {
  using In = const std::vector<Tensor>&;
  return {
      .samples =
          {
              {.op = "reshape",
               .label = "one size found",
               .inputs = {{{2, 6}}},
               .call =
                   [](In in) {
                     return std::vector{reshape(in[0], {3, -1})};
                   },
               .oracle = same_values({3, 4}),
               .exact = true},
              {.op = "reshape",
               .label = "empty",
               .inputs = {{{0, 6}}},
               .call =
                   [](In in) {
                     return std::vector{reshape(in[0], {3, 0})};
                   },
               .oracle = same_values({3, 0}),
               .exact = true},
              {.op = "reshape",
               .label = "expand_dims from the end",
               .inputs = {{{2, 3}}},
               .call = [](In in) { return std::vector{expand_dims(in[0], -1)}; },
               .oracle = same_values({2, 3, 1}),
               .exact = true},
              {.op = "reshape",
               .label = "squeeze all",
               .inputs = {{{1, 3, 1}}},
               .call = [](In in) { return std::vector{squeeze(in[0])}; },
               .oracle = same_values({3}),
               .exact = true},
          },
      .mistakes =
          {
              {.op = "reshape",
               .label = "too few elements",
               .call =
                   [] {
                     reshape(Tensor::from(std::vector<float>(6), {2, 3}), {4, 2});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[reshape]", "expected 6", "got 8", "hint:"}},
              {.op = "reshape",
               .label = "squeeze of a real axis",
               .call =
                   [] {
                     squeeze(Tensor::from(std::vector<float>(6), {2, 3}), 1);
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[squeeze]", "size 3", "expected 1"}},
          },
  };
}
