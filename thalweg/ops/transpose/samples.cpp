#include "tests/support/places.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/transpose/transpose.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

Sample permuted(const std::string& label, const Shape& shape, const Ints& perm) {
  Ints sizes;
  for (const std::int64_t axis : perm) sizes.push_back(shape[static_cast<int>(axis)]);
  const auto source = [perm](const Ints& place) {
    Ints at = place;
    for (int i = 0; i < perm.size(); ++i) at[static_cast<int>(perm[i])] = place[i];
    return at;
  };
  return {.op = "transpose",
          .label = label,
          .inputs = {{shape}},
          .call = [perm](const std::vector<Tensor>& in) { return std::vector{transpose(in[0], perm)}; },
          .oracle = moved(Shape(sizes), source),
          .exact = true};
}

}  // namespace

TW_SAMPLES {
  using In = const std::vector<Tensor>&;
  const auto reversed = [](const Ints& place) { return Ints{place[2], place[1], place[0]}; };
  return {
      .samples =
          {
              permuted("a matrix of odd sizes", {37, 45}, {1, 0}),
              permuted("several tasks", {260, 300}, {1, 0}),
              permuted("whole tiles", {64, 32}, {1, 0}),
              permuted("heads", {2, 5, 3, 8}, {0, 2, 1, 3}),
              permuted("inner matrices", {3, 7, 6}, {0, 2, 1}),
              permuted("pairs move as one", {5, 6, 2}, {1, 0, 2}),
              permuted("cycle", {4, 3, 5}, {2, 0, 1}),
              permuted("eight axes", {2, 1, 3, 2, 1, 2, 2, 2}, {7, 2, 0, 5, 1, 6, 4, 3}),
              permuted("only a size of 1 moves", {4, 1, 3}, {1, 0, 2}),
              permuted("empty", {3, 0, 2}, {2, 1, 0}),
              permuted("scalar", {}, {}),
              {.op = "transpose",
               .label = "no order given: reversed",
               .inputs = {{{2, 3, 4}}},
               .call = [](In in) { return std::vector{transpose(in[0])}; },
               .oracle = moved({4, 3, 2}, reversed),
               .exact = true},
              {.op = "transpose",
               .label = "axes from the end",
               .inputs = {{{2, 3, 4}}},
               .call =
                   [](In in) {
                     return std::vector{transpose(in[0], {-1, -2, -3})};
                   },
               .oracle = moved({4, 3, 2}, reversed),
               .exact = true},
          },
      .mistakes =
          {
              {.op = "transpose",
               .label = "an axis twice",
               .call =
                   [] {
                     transpose(zeros({2, 3}), {0, 0});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[transpose]", "axis 1", "missing", "[0, 0]"}},
              {.op = "transpose",
               .label = "too few axes",
               .call =
                   [] {
                     transpose(zeros({2, 3, 4}), {1, 0});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[transpose]", "expected a permutation of 3", "[1, 0]"}},
              {.op = "transpose",
               .label = "axis out of range",
               .call =
                   [] {
                     transpose(zeros({2, 3}), {0, 2});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[transpose]", "axis 2", "-2 to 1"}},
          },
  };
}
