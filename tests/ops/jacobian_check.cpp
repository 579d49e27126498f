#include <gtest/gtest.h>

#include "tests/ops/checks.h"
#include "tests/support/values.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/one_hot/one_hot.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg::testing {
namespace {

constexpr std::int64_t most_outputs = 12;

// Up to most_outputs of its elements, from the middle.
Tensor some_of(const Tensor& y) {
  const std::int64_t count = std::min(y.size(), most_outputs);
  return slice(reshape(y, {y.size()}), {(y.size() - count) / 2}, {count});
}

// A backward pass for each output, one after the other; undefined if not connected.
Tensor by_single_passes(GradientTape& tape, const Tensor& y, const Tensor& x) {
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const Tensor seed = one_hot(scalar(i, i64), y.size(), {.dtype = y.dtype()});
    Tensor row = tape.gradient(y, x, {.output_gradients = {seed}});
    if (!row.defined()) return row;
    rows.push_back(row);
  }
  return stack(rows, 0);
}

void compare(GradientTape& tape, const Tensor& y, const Tensor& x, const Sample& sample) {
  if (y.size() == 0 || 1 + x.rank() > max_rank) return;
  const Tensor want = by_single_passes(tape, y, x), got = tape.jacobian(y, x);
  ASSERT_EQ(got.defined(), want.defined());
  if (!want.defined()) return;
  EXPECT_TRUE(near(got, want, 1e-11 * sample.tolerance));
}

}  // namespace

void check_jacobian(const Sample& sample) {
  if (sample.large || sample.gradient_order < 1) return;
  const auto inputs = draw(sample.inputs, 9);
  GradientTape tape({.persistent = true});
  std::vector<Tensor> sources;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_float(inputs[i].dtype()) && sample.inputs[i].differentiable) sources.push_back(inputs[i]);
  tape.watch(sources);
  std::vector<Tensor> targets;
  {
    GradientTape first({.persistent = true});
    first.watch(sources);
    for (const auto& output : sample.call(inputs))
      if (is_float(output.dtype())) targets.push_back(some_of(output));
    if (sample.gradient_order > 1)
      for (const auto& gradient : first.gradient(targets, sources))
        if (gradient.defined() && gradient.shape().size() > 0) targets.push_back(some_of(sin(gradient.dense())));
  }
  const auto unrecorded = tape.stop_recording();
  for (std::size_t i = 0; i < targets.size(); ++i)
    for (std::size_t j = 0; j < sources.size(); ++j) {
      SCOPED_TRACE("target " + std::to_string(i) + " by source " + std::to_string(j));
      compare(tape, targets[i], sources[j], sample);
    }
}

}  // namespace thalweg::testing
