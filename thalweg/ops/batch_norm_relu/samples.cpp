#include "tests/support/sample.h"
#include "thalweg/ops/batch_norm_relu/batch_norm_relu.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

constexpr BatchNorm options{.epsilon = 1e-2};

// Where the relu is above zero must not change with the steps of numerical derivatives. The offset does nothing else to
// the gradients.
void add_samples(std::vector<Sample>& list, Shape x, bool large = false) {
  const Shape channels{x.last()};
  for (const bool residual : {false, true}) {
    std::vector<Input> inputs{{x}, {channels, Domain::nonzero}, {channels, Domain::nonzero}};
    if (residual) inputs.push_back({x, Domain::shifted});
    list.push_back({.op = "batch_norm_relu",
                    .label = (residual ? "with a residual, " : "") + x.to_string(),
                    .inputs = inputs,
                    .call =
                        [=](In in) {
                          const auto [z, mean, variance, rstd] =
                              batch_norm_relu(in[0], in[1], in[2], residual ? in[3] : Tensor(), options);
                          return std::vector{z, mean, variance, rstd};
                        },
                    .dtypes = {f32, f64},
                    .tolerance = 4,
                    .large = large,
                    .nonfinite = false});
  }
  list.push_back({.op = "batch_norm_relu_backward",
                  .label = x.to_string(),
                  .inputs = {{x},
                             {channels, Domain::nonzero},
                             {.shape = channels, .domain = Domain::nonzero, .differentiable = false},
                             {x}},
                  .call =
                      [](In in) {
                        const auto forward = batch_norm_relu(in[0], in[1], in[2], {}, options);
                        const auto g =
                            batch_norm_relu_backward(in[0], in[1], in[2], forward.mean, forward.rstd, in[3], options);
                        return std::vector{g.x, g.scale, g.offset};
                      },
                  .dtypes = {f32, f64},
                  .tolerance = 8,
                  .large = large,
                  .nonfinite = false});
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  for (const auto& shape : {Shape{5, 3}, Shape{2, 3, 4, 2}, Shape{12, 19}, Shape{1, 4}, Shape{6}})
    add_samples(list, shape);
  add_samples(list, {8, 32, 32, 40}, true);
  return {.samples = list, .mistakes = {}};
}
