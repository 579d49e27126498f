// Numbers too small for a normal float: ops take them for 0, and leave the host program's arithmetic as it was.
#include <gtest/gtest.h>

#include <algorithm>

#include "thalweg/core/denormals.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using Mode = Denormals::Mode;
constexpr float kTiny = 1e-30f, kSmall = 1e-9f;  // their product is denormal

bool all_zero(const Tensor& x) {
  const auto values = x.to_vector<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

// So few that the calling thread computes them, and so many that others do.
class Denormal : public testing::TestWithParam<std::int64_t> {
 protected:
  Tensor tiny() const { return full({GetParam()}, kTiny); }
};

TEST_P(Denormal, ResultsAreZero) { EXPECT_TRUE(all_zero(tiny() * kSmall)); }

TEST_P(Denormal, ResultsOfACompiledFunctionAreZero) {
  const auto f = function([](const Tensor& x) { return x * kSmall; });
  EXPECT_TRUE(all_zero(f(tiny())));
}

TEST_P(Denormal, OperandsAreZero) {
  const Tensor denormal = cast(full({GetParam()}, 1e-40, f64), f32);
  EXPECT_EQ(denormal.to_vector<float>()[0], 1e-40f) << "a cast moves values, it computes none";
  EXPECT_TRUE(all_zero(denormal * 1e9f));
}

TEST_P(Denormal, TheHostProgramKeepsItsOwn) {
  ASSERT_EQ(Denormals::current(), Mode::kept);
  const Tensor y = tiny() * kSmall;
  EXPECT_EQ(Denormals::current(), Mode::kept);
  volatile float tiny = kTiny;
  EXPECT_GT(tiny * kSmall, 0);
}

TEST_P(Denormal, ErrorsToo) {
  EXPECT_THROW(gather(tiny(), full({GetParam()}, GetParam(), i64)), Error);
  EXPECT_EQ(Denormals::current(), Mode::kept);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Denormal, testing::Values(3, 1 << 20));

TEST(Denormals, ScopesNest) {
  const Denormals outer(Mode::flushed);
  {
    const Denormals inner(Mode::kept);
    EXPECT_EQ(Denormals::current(), Mode::kept);
  }
  EXPECT_EQ(Denormals::current(), Mode::flushed);
}

}  // namespace
}  // namespace thalweg
