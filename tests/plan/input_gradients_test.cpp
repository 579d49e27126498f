// Gradients of inputs and Jacobians of batches of any size.
#include <gtest/gtest.h>

#include "tests/support/values.h"
#include "thalweg/plan/ladder.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::near;

TEST(InputGradients, of_a_large_batch_keep_to_the_budget) {
  Variable a(random::normal({20, 64}, {.seed = 1})), b(random::normal({64, 1}, {.seed = 2}));
  const auto net = [&](const Tensor& x) { return matmul(tanh(matmul(x, a)), b); };
  const Tensor x = random::normal({50001, 20}, {.seed = 3});
  const Tensor want = grad(net)(x);
  config::reset_peak_memory();
  const std::int64_t before = config::memory_info().in_use;
  const Tensor got = input_gradients(net, x, {.memory_budget = MiB(2)});
  EXPECT_LE(config::memory_info().peak - before, MiB(2) + got.bytes() + 64);
  EXPECT_TRUE(near(got, want, 1e-5));
}

// Parts that add nothing up run at the same time, one to a thread: the same bits, and memory for as many of them.
TEST(InputGradients, have_the_same_bits_for_any_number_of_threads) {
  Variable a(random::normal({20, 64}, {.seed = 1})), b(random::normal({64, 1}, {.seed = 2}));
  const auto gradient = [&](const Tensor& x) {
    GradientTape tape({.watch_accessed_variables = false});
    tape.watch(x);
    return tape.gradient(matmul(dropout(tanh(matmul(x, a)), 0.5), b), x);
  };
  const Tensor x = random::normal({20001, 20}, {.seed = 3});
  std::vector<float> want;
  for (int threads : {1, 2, 3}) {
    config::set_threads(threads);
    random::set_seed(1);
    const auto f = function(gradient, {.memory_budget = x.bytes() + MiB(4)});
    const auto got = f(x).to_vector<float>();
    if (threads == 1) want = got;
    EXPECT_EQ(got, want) << threads;
    const auto& plan = f.plan(x);
    EXPECT_EQ(plan.state().compiled.rung.lanes, threads);
    EXPECT_EQ(f.stats().measured_peak_bytes, plan.peak_bytes());
    EXPECT_LE(plan.peak_bytes(), x.bytes() + MiB(4));
    const bool says = plan.report().find(std::to_string(threads) + " at a time") != std::string::npos;
    EXPECT_EQ(says, threads > 1) << plan.report();
  }
  config::set_threads(0);
}

// Rungs for several threads take none away from the end of the ladder.
TEST(InputGradients, can_be_taken_example_by_example_with_every_effort) {
  config::set_threads(3);
  const Tensor x = random::normal({20001, 4}, {.seed = 3});
  const auto f = function([](const Tensor& batch) { return exp(tanh(batch)); });
  const auto rungs = ladder_of(f.plan(x).state().traced, {}).rungs();
  for (const int effort : {0, 3, most_effort})
    EXPECT_TRUE(std::any_of(rungs.begin(), rungs.end(), [&](const Rung& rung) {
      return rung.parts == 20001 && rung.effort == effort && rung.lanes == 1;
    })) << effort;
  config::set_threads(0);
}

// An op within a lane runs on one thread, whose scratch is all it needs.
TEST(InputGradients, side_by_side_take_as_much_for_each_thread_as_for_one) {
  Variable w(random::normal({3, 3, 16, 64}, {.seed = 1}));
  const auto f = function([&](const Tensor& x) { return square(conv2d(x, w)); });
  const Graph& traced = f.plan(Spec{f32, {64, 16, 16, 16}}).state().traced;
  const auto arena = [&](int threads) {
    config::set_threads(threads);
    return ladder_of(traced, {}).build({.parts = 8, .effort = 0, .lanes = threads}).memory.arena_bytes;
  };
  EXPECT_EQ(arena(4), 4 * arena(1));
  config::set_threads(0);
}

TEST(InputGradients, name_the_first_example_that_fails_in_any_part) {
  config::set_threads(2);
  Variable table(random::normal({64, 64}, {.seed = 1}));
  std::vector<std::int32_t> numbers(40'000, 0);
  for (int i = 0; i < 4; ++i) numbers[static_cast<std::size_t>(10'000 + 9'000 * i)] = 70 + i;
  const Tensor ids = Tensor::from(numbers, {40'000, 1});
  const auto f = function(
      [&](const Tensor& x) {
        return reduce_sum(exp(gather(table, x)) * 2, {.axes = {1, 2}});
      },
      {.memory_budget = MiB(4)});
  for (int repeat = 0; repeat < 5; ++repeat) {
    try {
      f(ids);
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("70"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(f.plan(ids).state().compiled.rung.lanes, 2);
  config::set_threads(0);
}

TEST(InputGradients, say_what_would_be_enough) {
  Variable a(random::normal({20, 64}, {.seed = 1})), b(random::normal({64, 1}, {.seed = 2}));
  const auto net = [&](const Tensor& x) { return matmul(tanh(matmul(x, a)), b); };
  const Tensor x = random::normal({101, 20}, {.seed = 3});
  std::int64_t enough = 0;
  try {
    input_gradients(net, x, {.memory_budget = 100});
    ADD_FAILURE() << "expected an error";
  } catch (const InfeasibleBudget& none) {
    EXPECT_EQ(none.answer().budget_bytes, 100);
    enough = none.answer().smallest_feasible_bytes;
  }
  EXPECT_TRUE(near(input_gradients(net, x, {.memory_budget = enough}), grad(net)(x), 1e-5));
  EXPECT_THROW(input_gradients(net, x, {.memory_budget = enough - 64}), InfeasibleBudget);
  EXPECT_TRUE(
      near(input_gradients(net, x, {.memory_budget = std::numeric_limits<std::int64_t>::max()}), grad(net)(x), 1e-5));
}

TEST(BatchJacobian, agrees_with_the_tape_within_a_budget) {
  Variable a(random::normal({4, 16}, {.seed = 1})), b(random::normal({16, 3}, {.seed = 2}));
  const auto net = [&](const Tensor& x) { return matmul(tanh(matmul(x, a)), b); };
  const Tensor x = random::normal({501, 4}, {.seed = 3});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor want = tape.batch_jacobian(net(x), x);
  const auto unwatched = tape.stop_recording();  // a tape would keep more than the budget
  const Tensor got = batch_jacobian(net, x, {.memory_budget = KiB(100)});
  EXPECT_EQ(got.shape(), (Shape{501, 3, 4}));
  EXPECT_TRUE(near(got, want, 1e-5));
}

}  // namespace
}  // namespace thalweg
