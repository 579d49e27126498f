#include "tests/support/places.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/roll/roll.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

Sample rolled(const std::string& label, const Shape& shape, std::int64_t shift, int axis) {
  const int at = axis < 0 ? axis + shape.rank() : axis;
  const auto source = [=](Ints place) {
    place[at] = ((place[at] - shift) % shape[at] + shape[at]) % shape[at];
    return place;
  };
  return {.op = "roll",
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return std::vector{roll(in[0], shift, axis)}; },
          .oracle = moved(shape, source),
          .exact = true};
}

}  // namespace

TW_SAMPLES {
  return {
      .samples =
          {
              rolled("rows", {5, 3}, 2, 0),
              rolled("columns, backwards", {3, 5}, -1, 1),
              rolled("more than once around, axis from the end", {2, 5}, 13, -1),
              rolled("not at all", {4}, 4, 0),
              rolled("nothing", {0, 2}, 3, 0),
              {.op = "roll",
               .label = "two axes",
               .inputs = {{{3, 4}}},
               .call =
                   [](In in) {
                     return std::vector{roll(in[0], {1, -1}, {0, 1})};
                   },
               .oracle = moved({3, 4},
                               [](const Ints& p) {
                                 return Ints{(p[0] + 2) % 3, (p[1] + 1) % 4};
                               }),
               .exact = true},
          },
      .mistakes =
          {
              {.op = "roll",
               .label = "axis out of range",
               .call = [] { roll(zeros({2}), 1, 1); },
               .code = ErrorCode::invalid_argument,
               .words = {"[roll]", "axis 1"}},
              {.op = "roll",
               .label = "lists of different length",
               .call =
                   [] {
                     roll(zeros({2, 2}), {1, 1}, Ints{0});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[roll]", "as many shifts as axes"}},
          },
  };
}
