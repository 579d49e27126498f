// Sums of 16-bit floats over the parts of a batch.
#include <gtest/gtest.h>

#include "tests/support/values.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::near;
using testing::same_bits;

template <class Step>
std::int64_t smallest_budget(const Step& step, const Tensor& x) {
  try {
    step.plan(x);
  } catch (const InfeasibleBudget& none) {
    return none.answer().smallest_feasible_bytes;
  }
  return 0;
}

// A one is lost on sums from 256 on in bf16, and from 2048 on in f16. Parts of the gradients and of the mean come as
// they are; those of two means that are added are rounded, each by itself.
void sums_are_rounded_once(DType dtype, bool product, int parts) {
  constexpr std::int64_t examples = 4096, side = 16;
  const Tensor bits = random::uniform({examples, side}, {.low = 0, .high = 2, .seed = 3, .dtype = i64});
  const Tensor mean = reduce_mean(cast(bits, f64)), sums = reduce_sum(cast(bits, f64), {.axes = 0});
  Variable w(zeros(product ? Shape{side, side} : Shape{side}, dtype)), bias(zeros({side}, dtype));
  const auto run = [&](const Tensor& x) {
    GradientTape tape;
    const Tensor y = tanh(tanh((product ? matmul(x, w) : x * w) + bias));
    const auto gradients = tape.gradient(reduce_sum(y), std::vector<Variable>{w, bias});
    return std::vector<Tensor>{gradients[0].dense(), gradients[1].dense(), reduce_mean(x),
                               reduce_mean(abs(x)) + reduce_mean(square(x))};
  };
  const Tensor x = cast(bits, dtype);
  const Tensor want = product ? broadcast_to(expand_dims(sums, 1), {side, side}) : sums;
  const auto step = function(run, {.memory_budget = smallest_budget(function(run, {.memory_budget = 1}), x)});
  const auto got = step(x);
  EXPECT_EQ(step.stats().measured_peak_bytes, step.plan(x).peak_bytes());
  EXPECT_GE(step.plan(x).micro_batches(), parts);
  EXPECT_TRUE(same_bits(got[0], cast(want, dtype)));
  EXPECT_TRUE(same_bits(got[1], cast(ones({side}, f64) * examples, dtype)));
  EXPECT_TRUE(same_bits(got[2], cast(mean, dtype)));
  EXPECT_TRUE(near(got[3], cast(mean + mean, dtype), dtype == bf16 ? 4e-3 : 5e-4));
}

TEST(Budget, sums_of_16_bits_are_rounded_once) {
  for (DType dtype : {f16, bf16, f32}) {
    SCOPED_TRACE(name_of(dtype));
    sums_are_rounded_once(dtype, false, 1000);
    sums_are_rounded_once(dtype, true, 2);
  }
}

}  // namespace
}  // namespace thalweg
