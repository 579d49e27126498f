#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/group_norm/gradients.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

void add_samples(std::vector<Sample>& list, Shape x, std::int64_t groups) {
  const GroupNorm options{.groups = groups, .epsilon = 1e-2};
  const Shape channels{x.last()};
  const std::string label = x.to_string() + " in " + std::to_string(groups);
  list.push_back({.op = "group_norm",
                  .label = label,
                  .inputs = {{x}, {channels}, {channels}},
                  .call = [=](In in) { return std::vector{group_norm(in[0], in[1], in[2], options)}; },
                  .tolerance = 4});
  list.push_back(
      {.op = "group_norm_backward",
       .label = label,
       .inputs = {{x}, {channels}, {x}},
       .call =
           [=](In in) {
             const Tensor grouped = reshape(in[0], {x[0], x.product(1, x.rank() - 1), groups, x.last() / groups});
             const auto [mean, variance] = moments(grouped, {.axes = {1, 3}});
             const auto g = group_norm_backward(in[0], in[1], mean, rsqrt(variance + options.epsilon), in[2], options);
             return std::vector{g.x, g.scale, g.offset};
           },
       .dtypes = {f32, f64},
       .tolerance = 8,
       .nonfinite = false});
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  add_samples(list, {2, 3, 2, 6}, 3);
  add_samples(list, {2, 5, 4}, 1);
  add_samples(list, {3, 4, 5}, 5);
  add_samples(list, {2, 38}, 2);
  add_samples(list, {0, 3, 4}, 2);
  return {.samples = list,
          .mistakes = {{.op = "group_norm",
                        .label = "groups",
                        .call =
                            [] {
                              group_norm(zeros({2, 3, 4}), zeros({4}), zeros({4}), {.groups = 3});
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[group_norm]", "3 groups", "4 channels", "[2, 3, 4]"}},
                       {.op = "group_norm",
                        .label = "epsilon",
                        .call =
                            [] {
                              group_norm(zeros({2, 3, 4}), zeros({4}), zeros({4}), {.groups = 2, .epsilon = -1});
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[group_norm]", "epsilon of at least 0", "got -1"}},
                       {.op = "group_norm",
                        .label = "scale",
                        .call =
                            [] {
                              group_norm(zeros({2, 3, 4}), zeros({3}), zeros({4}), {.groups = 2});
                            },
                        .code = ErrorCode::invalid_argument,
                        .words = {"[group_norm]", "[4]", "got [3]"}}}};
}
