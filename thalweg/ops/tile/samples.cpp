#include "tests/support/places.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/tile/tile.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

Sample tiled(const std::string& label, const Shape& shape, const Ints& multiples, const Shape& result) {
  const auto source = [shape](Ints place) {
    for (int i = 0; i < place.size(); ++i) place[i] %= shape[i];
    return place;
  };
  return {.op = "tile",
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return std::vector{tile(in[0], multiples)}; },
          .oracle = moved(result, source),
          .exact = true};
}

Sample broadcast(const std::string& label, const Shape& shape, const Shape& result) {
  const auto source = [shape](const Ints& place) {
    Ints at;
    for (int i = 0; i < shape.rank(); ++i) at.push_back(shape[i] == 1 ? 0 : place[place.size() - shape.rank() + i]);
    return at;
  };
  return {.op = "broadcast_to",
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return std::vector{broadcast_to(in[0], result)}; },
          .oracle = moved(result, source),
          .exact = true};
}

Sample repeated(const std::string& label, const Shape& shape, std::int64_t n, int axis, const Shape& result) {
  const int place_axis = axis < 0 ? axis + shape.rank() : axis;
  const auto source = [=](Ints place) { return place[place_axis] /= std::max<std::int64_t>(n, 1), place; };
  return {.op = "broadcast_to",
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return std::vector{repeat(in[0], n, axis)}; },
          .oracle = moved(result, source),
          .exact = true};
}

}  // namespace

TW_SAMPLES {
  return {
      .samples =
          {
              tiled("both axes", {2, 3}, {2, 3}, {4, 9}),
              tiled("one axis", {2, 3}, {1, 2}, {2, 6}),
              tiled("five axes", {2, 1, 3, 2, 2}, {2, 3, 2, 1, 2}, {4, 3, 6, 2, 4}),
              tiled("no copy", {2, 3}, {0, 2}, {0, 6}),
              tiled("scalar", {}, {}, {}),
              broadcast("rows", {3}, {4, 3}),
              broadcast("columns", {4, 1}, {4, 5}),
              broadcast("scalar", {}, {2, 3}),
              broadcast("outside and inside", {3, 1, 2}, {2, 3, 4, 2}),
              broadcast("same shape", {2, 3}, {2, 3}),
              broadcast("to nothing", {1, 3}, {0, 3}),
              repeated("repeat rows", {2, 3}, 3, 0, {6, 3}),
              repeated("repeat in the last axis", {2, 3}, 2, -1, {2, 6}),
              repeated("repeat no times", {2, 3}, 0, 1, {2, 0}),
          },
      .mistakes =
          {
              {.op = "tile",
               .label = "too few multiples",
               .call =
                   [] {
                     tile(zeros({2, 3}), {2});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[tile]", "expected 2", "[2]"}},
              {.op = "tile",
               .label = "negative",
               .call = [] { tile(zeros({2}), {-1}); },
               .code = ErrorCode::invalid_argument,
               .words = {"[tile]", "0 or more", "-1"}},
              {.op = "broadcast_to",
               .label = "sizes do not fit",
               .call =
                   [] {
                     broadcast_to(zeros({2, 3}), {2, 4});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[broadcast_to]", "[2, 3]", "[2, 4]"}},
              {.op = "broadcast_to",
               .label = "fewer axes",
               .call =
                   [] {
                     broadcast_to(zeros({2, 3}), {3});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[broadcast_to]", "[2, 3]", "[3]"}},
              {.op = "broadcast_to",
               .label = "repeat a negative number of times",
               .call = [] { repeat(zeros({2}), -1, 0); },
               .code = ErrorCode::invalid_argument,
               .words = {"[repeat]", "0 or more", "-1"}},
          },
  };
}
