#include "thalweg/nn/pool.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/pool/pool.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/resize/resize.h"

namespace thalweg::nn {
namespace {

// The number of spatial axes.
int spatial_of(const char* op, const Tensor& x) {
  TW_CHECK_USER(x.rank() >= 3 && x.rank() <= 5, op,
                "images are [batch, spatial…, channels]; tw::expand_dims adds an axis",
                "expected an input with 1 to 3 spatial axes, got {}", x.shape());
  return x.rank() - 2;
}

Pool pool_of(const char* op, const PoolOptions& options, const Tensor& x) {
  const int spatial = spatial_of(op, x);
  return {.size = options.size.resolve(op, "size", spatial),
          .strides = options.strides.value_or(options.size).resolve(op, "strides", spatial),
          .padding = options.padding};
}

Reduce all_places(const char* op, const GlobalPoolOptions& options, const Tensor& x) {
  Ints axes;
  for (int i = 1; i <= spatial_of(op, x); ++i) axes.push_back(i);
  return {.axes = axes, .keepdims = options.keepdims};
}

}  // namespace

Tensor MaxPool::call(const Tensor& x) { return max_pool(x, pool_of("max_pool", options_, x)); }
Tensor AvgPool::call(const Tensor& x) { return avg_pool(x, pool_of("avg_pool", options_, x)); }

Tensor GlobalAvgPool::call(const Tensor& x) { return reduce_mean(x, all_places("global_avg_pool", options_, x)); }
Tensor GlobalMaxPool::call(const Tensor& x) { return reduce_max(x, all_places("global_max_pool", options_, x)); }

Tensor ZeroPadding::call(const Tensor& x) {
  const auto spatial = static_cast<std::size_t>(spatial_of("zero_padding", x));
  const auto& given = options_.padding;
  TW_CHECK_USER(given.size() == 1 || given.size() == spatial, "zero_padding",
                "give one pair of places before and after for all spatial axes, or one for each",
                "expected {} pairs, got {}", spatial, given.size());
  Paddings paddings{{0, 0}};
  for (std::size_t i = 0; i < spatial; ++i) paddings.push_back(given[given.size() == 1 ? 0 : i]);
  paddings.emplace_back(0, 0);
  return pad(x, paddings);
}

Tensor UpSampling2D::call(const Tensor& x) {
  TW_CHECK_USER(x.rank() == 4, "up_sampling2d", "images are [batch, height, width, channels]",
                "expected an input of rank 4, got {}", x.shape());
  const Ints size = options_.size.resolve("up_sampling2d", "size", 2);
  const Ints target{x.shape()[1] * size[0], x.shape()[2] * size[1]};
  return options_.interpolation == Interpolation::nearest ? resize_nearest(x, target) : resize_bilinear(x, target);
}

Tensor Flatten::call(const Tensor& x) {
  TW_CHECK_USER(x.rank() >= 1, "flatten", "tw::expand_dims(x, 0) makes a batch of one example",
                "expected an input of rank 1 or more, got a scalar");
  return reshape(x, {x.shape()[0], x.shape().product(1, x.rank())});
}

}  // namespace thalweg::nn
