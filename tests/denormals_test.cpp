// Numbers too small for a normal float: ops take them for 0, and leave the host program's arithmetic as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

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

TEST_P(Denormal, ResultsInsideOfConditionalsAndLoopsAreZero) {
  using List = std::vector<Tensor>;
  const auto smaller = [](const Tensor& x) {
    return cond(
        reduce_max(x) > 0, [&] { return x * kSmall; }, [&] { return x; });
  };
  const auto f = function([&](const Tensor& x) {
    const Tensor y = while_loop([](const List& v) { return reduce_max(v[0]) > kTiny / 2; },
                                [&](const List& v) { return List{smaller(v[0])}; }, {x})[0];
    return List{y, y * 1e20f};
  });
  for (const Tensor& y : f(tiny())) EXPECT_TRUE(all_zero(y));
  EXPECT_EQ(Denormals::current(), Mode::kept);
}

TEST_P(Denormal, OperandsAreZero) {
  const Tensor denormal = cast(full({GetParam()}, 1e-40, f64), f32);
  EXPECT_EQ(denormal.to_vector<float>()[0], 1e-40f) << "a cast moves values, it computes none";
  EXPECT_TRUE(all_zero(denormal * 1e9f));
}

// What follows a cast is computed as what stands before it.
TEST_P(Denormal, ACastInACompiledFunctionKeepsThem) {
  const auto f = function([](const Tensor& x) {
    const Tensor moved = cast(x, f32);
    return std::vector<Tensor>{moved, moved * 1e9f};
  });
  const auto results = f(full({GetParam()}, 1e-40, f64));
  EXPECT_EQ(results[0].to_vector<float>()[0], 1e-40f);
  EXPECT_TRUE(all_zero(results[1]));
}

// Written into a program or given to it.
TEST_P(Denormal, NumbersAreTheSameInACompiledFunction) {
  const auto f = [](const Tensor& x) {
    const Tensor chosen = where(x > 1, x * 2, 1e-40f), filled = full(x.shape(), 1e-40f);
    return concat({chosen, filled, maximum(x * 0, 1e-40f), pad(x, {{0, 1}}, {.value = 1e-40})}, 0);
  };
  EXPECT_EQ(function(f)(tiny()).to_vector<float>(), f(tiny()).to_vector<float>());
}

TEST_P(Denormal, SignsAreThoseOfZero) {
  const Tensor denormal = cast(full({GetParam()}, -1e-40, f64), f32);
  for (const Tensor& y : {sign(denormal), function([](const Tensor& x) { return sign(x); })(denormal)}) {
    EXPECT_TRUE(all_zero(y));
    EXPECT_TRUE(std::signbit(y.to_vector<float>()[0]));
  }
}

TEST_P(Denormal, TheHostProgramKeepsItsOwn) {
  ASSERT_EQ(Denormals::current(), Mode::kept);
  const Tensor y = tiny() * kSmall;
  EXPECT_EQ(Denormals::current(), Mode::kept);
  volatile float tiny = kTiny;
  EXPECT_GT(tiny * kSmall, 0);
}

TEST_P(Denormal, AHostProgramThatFlushesResultsAloneKeepsItsOwn) {
  const auto results_alone = static_cast<Mode>(0x8000);
  const Denormals host(results_alone);
  const Tensor denormal = cast(full({GetParam()}, 1e-40, f64), f32);
  EXPECT_EQ(denormal.to_vector<float>().back(), 1e-40f);
  EXPECT_TRUE(all_zero(denormal * 1e9f));
  EXPECT_EQ(Denormals::current(), results_alone);
}

TEST_P(Denormal, ErrorsToo) {
  const Tensor beyond = full({GetParam()}, GetParam(), i64);
  EXPECT_THROW(gather(tiny(), beyond), Error);
  EXPECT_EQ(Denormals::current(), Mode::kept);
  const auto f = function([](const Tensor& x, const Tensor& indices) { return gather(x, indices); });
  EXPECT_THROW(f(tiny(), beyond), Error);
  EXPECT_EQ(Denormals::current(), Mode::kept);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Denormal, testing::Values(3, 1 << 20));

// A thread for each task.
class PoolOfTheHost final : public ThreadPool {
 public:
  int threads() const override { return 2; }
  void run(std::int64_t tasks, FunctionRef<void(std::int64_t)> body) override {
    for (std::int64_t i = 0; i < tasks; ++i) std::thread([&] { run_task(i, body); }).join();
  }
  std::int64_t tasks_run = 0, tasks_that_left_a_mode = 0;

 private:
  void run_task(std::int64_t i, FunctionRef<void(std::int64_t)> body) {
    const Denormals own(Mode::kept);
    body(i);
    ++tasks_run;
    tasks_that_left_a_mode += Denormals::current() != Mode::kept;
  }
};

TEST(Denormals, ThreadsOfTheHostProgramKeepTheirOwn) {
  const auto pool = std::make_shared<PoolOfTheHost>();
  config::set_thread_pool(pool);
  const Tensor y = full({1 << 20}, kTiny) * kSmall;
  EXPECT_THROW(gather(y, full({1 << 20}, 1 << 20, i64)), Error);
  config::set_threads(0);
  EXPECT_TRUE(all_zero(y));
  EXPECT_GT(pool->tasks_run, 1);
  EXPECT_EQ(pool->tasks_that_left_a_mode, 0);
}

TEST(Denormals, FunctionsOfTheHostProgramInAPipelineKeepTheirOwn) {
  const auto multiply = [](const Tensor& x) {
    volatile float tiny = kTiny;
    const bool zero = all_zero(cast(x, f32) * kTiny * kSmall);
    return scalar(zero && tiny * kSmall > 0, boolean);
  };
  int elements = 0;
  for (const auto& element : data::range(1, 9).map(multiply, {.parallel = 2}).prefetch(2)) {
    EXPECT_TRUE(element[0].item<bool>());
    ++elements;
  }
  EXPECT_EQ(elements, 8);
}

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
