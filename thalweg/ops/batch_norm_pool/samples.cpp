#include "tests/support/sample.h"
#include "thalweg/ops/batch_norm_pool/batch_norm_pool.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

struct Case {
  std::string label;
  Shape x;
  Ints size;
  bool large = false;
};

// Where the largest values lie must not change with the steps of numerical derivatives: they are apart. The offset does
// nothing else to the gradients.
void add_samples(std::vector<Sample>& list, const Case& c) {
  const Shape channels{c.x.last()};
  const BatchNormPool options{.epsilon = 1e-2, .size = c.size};
  Shape places = c.x;
  for (int i = 0; i < c.size.size(); ++i) places = places.with(i + 1, c.x[i + 1] / c.size[i]);
  list.push_back({.op = "batch_norm_pool",
                  .label = c.label,
                  .inputs = {{c.x, Domain::apart}, {channels, Domain::nonzero}, {channels}},
                  .call =
                      [=](In in) {
                        const auto [y, mean, rstd] = batch_norm_pool(in[0], in[1], in[2], options);
                        return std::vector{y, mean, rstd};
                      },
                  .dtypes = {f32, f64},
                  .tolerance = 4,
                  .large = c.large,
                  .nonfinite = false});
  list.push_back({.op = "batch_norm_pool_backward",
                  .label = c.label,
                  .inputs = {{c.x, Domain::apart},
                             {channels, Domain::nonzero},
                             {.shape = channels, .differentiable = false},
                             {places}},
                  .call =
                      [=](In in) {
                        const auto [y, mean, rstd] = batch_norm_pool(in[0], in[1], in[2], options);
                        const auto g = batch_norm_pool_backward(in[0], in[1], in[2], mean, rstd, in[3], options);
                        return std::vector{g.x, g.scale, g.offset};
                      },
                  .dtypes = {f32, f64},
                  .tolerance = 8,
                  .large = c.large,
                  .nonfinite = false});
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  add_samples(list, {"a line", {2, 6, 3}, {3}});
  add_samples(list, {"an image", {2, 4, 4, 2}, {2, 2}});
  add_samples(list, {"windows of two sizes, channels with a rest", {1, 2, 6, 19}, {1, 3}});
  add_samples(list, {"a volume", {2, 4, 2, 2, 1}, {2, 1, 2}});
  add_samples(list, {"one window", {3, 2, 2, 2}, {2, 2}});
  add_samples(list, {"many", {8, 32, 32, 40}, {2, 2}, true});
  return {.samples = list, .mistakes = {}};
}
