#include "tests/support/sample.h"
#include "thalweg/ops/limit_skips/limit_skips.h"

using namespace thalweg;
using namespace thalweg::testing;

TW_SAMPLES {
  const auto limited = [](std::int64_t skips, std::int64_t place) {
    return limit_skips(scalar(skips, i64), scalar(place, i64), 3, {"kernel", "bias", "table"});
  };
  const auto too_many = [&](std::int64_t place, const char* name) -> Mistake {
    return {.op = "limit_skips",
            .label = name,
            .call = [=] { limited(4, place); },
            .code = ErrorCode::failed_precondition,
            .words = {"[apply]", std::string("\"") + name + "\"", "at most 3", "got 4"}};
  };
  return {.samples = {{.op = "limit_skips",
                       .label = "as many as allowed",
                       .inputs = {{{}, Domain::index, 4}, {{}, Domain::index, 2}},
                       .call =
                           [](const std::vector<Tensor>& in) {
                             return std::vector{limit_skips(in[0], in[1], 3, {"kernel", "bias"})};
                           },
                       .oracle = [](const std::vector<Tensor>& in) { return std::vector{in[0]}; },
                       .gradient_order = 0,
                       .exact = true}},
          .mistakes = {too_many(0, "kernel"), too_many(1, "bias"), too_many(2, "table")}};
}
