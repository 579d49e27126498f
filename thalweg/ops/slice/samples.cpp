#include "tests/support/places.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/slice/slice.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

Sample slice_sample(const std::string& label, const Shape& shape, const Ints& begin, const Ints& size,
                    const Shape& result) {
  const auto source = [begin](Ints place) {
    for (int i = 0; i < place.size(); ++i) place[i] += begin[i];
    return place;
  };
  return {.op = "slice",
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return std::vector{slice(in[0], begin, size)}; },
          .oracle = moved(result, source),
          .exact = true};
}

Sample strided(const std::string& label, const Shape& shape, const StridedSlice& options, const Shape& result,
               const std::function<Ints(Ints)>& source, const char* op = "strided_slice") {
  return {.op = op,
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return std::vector{strided_slice(in[0], options)}; },
          .oracle = moved(result, source),
          .exact = true};
}

Sample reversed(const std::string& label, const Shape& shape, const Axes& axes,
                const std::function<Ints(Ints)>& source) {
  return {.op = "strided_slice",
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return std::vector{reverse(in[0], axes)}; },
          .oracle = moved(shape, source),
          .exact = true};
}

}  // namespace

TW_SAMPLES {
  return {
      .samples =
          {
              slice_sample("inside", {5, 6}, {1, 2}, {3, 3}, {3, 3}),
              slice_sample("to the end", {5, 6}, {1, 2}, {-1, -1}, {4, 4}),
              slice_sample("leading rows: a view", {5, 6}, {2, 0}, {2, 6}, {2, 6}),
              slice_sample("one row, then a part: a view", {4, 5, 6}, {2, 1, 0}, {1, 3, 6}, {1, 3, 6}),
              slice_sample("nothing", {5, 6}, {5, 1}, {0, 2}, {0, 2}),
              slice_sample("scalar", {}, {}, {}, {}),
              strided("steps", {7, 6}, {.begin = {1, 0}, .end = {6, 5}, .strides = {2, 3}}, {3, 2},
                      [](const Ints& p) {
                        return Ints{1 + 2 * p[0], 3 * p[1]};
                      }),
              strided("backwards", {5, 4}, {.begin = {4, 3}, .end = {0, 0}, .strides = {-1, -2}}, {4, 2},
                      [](const Ints& p) {
                        return Ints{4 - p[0], 3 - 2 * p[1]};
                      }),
              strided(
                  "an axis removed, one whole", {3, 4, 5},
                  {.begin = {1, 0, 0},
                   .end = {2, 0, 2},
                   .strides = {1, 1, 1},
                   .begin_mask = 2,
                   .end_mask = 2,
                   .shrink_axis_mask = 1},
                  {4, 2},
                  [](const Ints& p) {
                    return Ints{1, p[0], p[1]};
                  },
                  "slice"),
              strided(
                  "ellipsis and a new axis", {3, 4, 5},
                  {.begin = {0, 0, 1}, .end = {0, 0, -1}, .ellipsis_mask = 1, .new_axis_mask = 2}, {3, 4, 1, 3},
                  [](const Ints& p) {
                    return Ints{p[0], p[1], p[3] + 1};
                  },
                  "slice"),
              strided("masks with a negative stride", {6},
                      {.begin = {0}, .end = {0}, .strides = {-2}, .begin_mask = 1, .end_mask = 1}, {3},
                      [](const Ints& p) { return Ints{5 - 2 * p[0]}; }),
              strided("places beyond the ends are cut", {5}, {.begin = {-9}, .end = {9}, .strides = {2}}, {3},
                      [](const Ints& p) { return Ints{2 * p[0]}; }),
              strided("nothing to take", {5}, {.begin = {3}, .end = {1}, .strides = {2}}, {0},
                      [](const Ints& p) { return p; }),
              strided("a negative place removed", {3, 4},
                      {.begin = {0, -1}, .end = {3, 0}, .strides = {2, 1}, .shrink_axis_mask = 2}, {2},
                      [](const Ints& p) {
                        return Ints{2 * p[0], 3};
                      }),
              reversed("reverse one axis", {3, 5}, 1,
                       [](const Ints& p) {
                         return Ints{p[0], 4 - p[1]};
                       }),
              reversed("reverse two axes", {3, 5, 2}, {0, -1},
                       [](const Ints& p) {
                         return Ints{2 - p[0], p[1], 1 - p[2]};
                       }),
              reversed("reverse nothing", {0, 5}, 0, [](const Ints& p) { return p; }),
              {.op = "strided_slice_gradient",
               .label = "scattered into zeros",
               .inputs = {{{3, 2}}},
               .call =
                   [](In in) {
                     return std::vector{
                         strided_slice_gradient(in[0], {7, 4}, {.begin = {1, 3}, .end = {7, 0}, .strides = {2, -2}})};
                   },
               .oracle = moved({7, 4},
                               [](const Ints& p) {
                                 return p[0] % 2 == 1 && p[1] % 2 == 1 ? Ints{p[0] / 2, (3 - p[1]) / 2} : Ints{-1, -1};
                               }),
               .exact = true},
              {.op = "strided_slice_gradient",
               .label = "whole along the first axis",
               .inputs = {{{3, 2}}},
               .call =
                   [](In in) {
                     return std::vector{
                         strided_slice_gradient(in[0], {3, 4}, {.begin = {0, 0}, .end = {3, 4}, .strides = {1, 2}})};
                   },
               .oracle = moved({3, 4},
                               [](const Ints& p) {
                                 return p[1] % 2 == 0 ? Ints{p[0], p[1] / 2} : Ints{-1, -1};
                               }),
               .exact = true},
          },
      .mistakes =
          {
              {.op = "slice",
               .label = "too long",
               .call =
                   [] {
                     slice(zeros({4, 5}), {0, 3}, {4, 3});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[slice]", "axis 1", "5 places", "begin 3", "size 3"}},
              {.op = "slice",
               .label = "too few entries",
               .call =
                   [] {
                     slice(zeros({4, 5}), {0}, {4});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[slice]", "expected 2"}},
              {.op = "strided_slice",
               .label = "a stride of zero",
               .call = [] { strided_slice(zeros({4}), {.begin = {0}, .end = {4}, .strides = {0}}); },
               .code = ErrorCode::invalid_argument,
               .words = {"[strided_slice]", "other than 0"}},
              {.op = "strided_slice",
               .label = "too many entries",
               .call =
                   [] {
                     strided_slice(zeros({4}), {.begin = {0, 0}, .end = {4, 1}});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[strided_slice]", "1 axes", "got 2"}},
              {.op = "strided_slice",
               .label = "two ellipses",
               .call =
                   [] {
                     strided_slice(zeros({4}), {.begin = {0, 0}, .end = {4, 1}, .ellipsis_mask = 3});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[strided_slice]", "at most one ellipsis"}},
              {.op = "strided_slice",
               .label = "a removed axis without that place",
               .call = [] { strided_slice(zeros({4}), {.begin = {4}, .end = {5}, .shrink_axis_mask = 1}); },
               .code = ErrorCode::invalid_argument,
               .words = {"[strided_slice]", "-4 to 3", "got 4"}},
              {.op = "strided_slice",
               .label = "reverse an axis twice",
               .call =
                   [] {
                     reverse(zeros({4}), {0, -1});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[reverse]", "twice"}},
          },
  };
}
