#include "tests/support/places.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/pad/pad.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

Shape padded(const Shape& shape, const Paddings& paddings) {
  Ints sizes;
  for (int i = 0; i < shape.rank(); ++i)
    sizes.push_back(shape[i] + paddings[static_cast<std::size_t>(i)].first +
                    paddings[static_cast<std::size_t>(i)].second);
  return Shape(sizes);
}

// Where the place i of an axis of this size comes from when the axis goes on as its mirror image.
std::int64_t mirrored(std::int64_t i, std::int64_t size, PadMode mode) {
  const std::int64_t edge = mode == PadMode::reflect ? 0 : 1;
  if (mode == PadMode::constant) return i;
  return i < 0 ? -i - edge : i >= size ? 2 * size - 2 + edge - i : i;
}

Sample sample(const std::string& label, const Shape& shape, const Paddings& paddings, const Pad& options) {
  const auto source = [=](Ints place) {
    for (int i = 0; i < place.size(); ++i)
      place[i] = mirrored(place[i] - paddings[static_cast<std::size_t>(i)].first, shape[i], options.mode);
    return place;
  };
  return {.op = "pad",
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return std::vector{pad(in[0], paddings, options)}; },
          .oracle = moved(padded(shape, paddings), source, options.value.real),
          .exact = true};
}

}  // namespace

TW_SAMPLES {
  return {
      .samples =
          {
              sample("zeros", {3, 4}, {{1, 2}, {0, 1}}, {}),
              sample("a value", {2, 3, 2}, {{0, 0}, {2, 1}, {1, 1}}, {.value = 1.5}),
              sample("around nothing", {0, 2}, {{1, 1}, {0, 3}}, {.value = -1}),
              sample("no places added", {2, 2}, {{0, 0}, {0, 0}}, {}),
              sample("scalar", {}, {}, {}),
              sample("reflect", {3, 4}, {{1, 2}, {2, 1}}, {.mode = PadMode::reflect}),
              sample("reflect as far as it goes", {4, 2}, {{3, 3}, {0, 1}}, {.mode = PadMode::reflect}),
              sample("symmetric", {3, 4}, {{1, 2}, {2, 1}}, {.mode = PadMode::symmetric}),
              sample("symmetric as far as it goes", {2, 3}, {{2, 2}, {0, 3}}, {.mode = PadMode::symmetric}),
          },
      .mistakes =
          {
              {.op = "pad",
               .label = "too few pairs",
               .call =
                   [] {
                     pad(zeros({2, 3}), {{1, 1}});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[pad]", "expected 2 pairs", "got 1"}},
              {.op = "pad",
               .label = "negative",
               .call =
                   [] {
                     pad(zeros({2}), {{-1, 1}});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[pad]", "0 or more", "-1"}},
              {.op = "pad",
               .label = "a mirror too small",
               .call =
                   [] {
                     pad(zeros({3}), {{3, 0}}, {.mode = PadMode::reflect});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[pad]", "at most 2", "got 3"}},
              {.op = "pad",
               .label = "a fraction among integers",
               .call =
                   [] {
                     pad(zeros({3}, i32), {{1, 0}}, {.value = 0.5});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[pad]", "whole number", "i32", "0.5"}},
          },
  };
}
