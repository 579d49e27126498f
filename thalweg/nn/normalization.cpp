#include "thalweg/nn/normalization.h"

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/widen.h"

namespace thalweg::nn {
namespace {

constexpr double smallest_deviation = 1e-7;

// The axes that are averaged over: all but those kept.
Ints averaged_axes(const Axes& kept, int rank) {
  const Ints keep = kept.resolve("normalization", rank);
  Ints axes;
  for (int axis = 0; axis < rank; ++axis)
    if (!keep.contains(axis)) axes.push_back(axis);
  return axes;
}

}  // namespace

// Statistics keep the axes they average over, with size 1, so that they broadcast.
void Normalization::build(const Spec& x) {
  Shape shape = x.shape;
  for (const auto axis : averaged_axes(options_.axes, x.rank())) shape = shape.with(static_cast<int>(axis), 1);
  const WeightOptions options{.dtype = weight_dtype(x), .trainable = false};
  mean_ = add_variable("mean", shape, initializers::zeros, options);
  variance_ = add_variable("variance", shape, initializers::ones, options);
}

void Normalization::adapt(const Tensor& data) {
  const Call running(*this);
  const PauseRecording unseen;
  build_once([&] { build(data.spec()); });
  const Ints axes = averaged_axes(options_.axes, data.rank());
  const auto [mean, variance] = moments(cast(data, mean_.dtype()), {.axes = axes, .keepdims = true});
  TW_CHECK_USER(mean.shape() == mean_.shape(), "normalization", "a layer is for data of one kind; make another one",
                "expected data with statistics of shape {}, as before, got {} from data {}", mean_.shape(),
                mean.shape(), data.shape());
  const double added = static_cast<double>(data.size()) / static_cast<double>(mean.size());
  TW_CHECK_USER(added > 0, "normalization", "give one example or more", "expected data, got shape {}", data.shape());
  const double share = added / (count_ + added);
  const Tensor step = mean - mean_;
  // The variance of both parts together: that within them and that of their means.
  variance_.assign(count_ == 0 ? variance
                               : variance_ * (1 - share) + variance * share + square(step) * (share * (1 - share)));
  mean_.assign(count_ == 0 ? mean : mean_ + step * share);
  count_ += added;
}

void Normalization::reset() { count_ = 0; }

// 16 bits are computed in f32: a variance may be beyond their range where its root is not.
Tensor Normalization::call(const Tensor& x) {
  check_floats(x.spec());
  check_fits("normalization", mean_.shape(), x.shape());
  const Tensor values = widen(x), mean = read(mean_, values.dtype());
  const Tensor deviation = maximum(sqrt(read(variance_, values.dtype())), smallest_deviation);
  return cast(options_.invert ? values * deviation + mean : (values - mean) / deviation, x.dtype());
}

}  // namespace thalweg::nn
