// The workloads of the benchmarks; tests/cli/bench_test.sh runs some of them as the command line does.
#include "models/workloads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/batches.h"

namespace thalweg::models {
namespace {

TEST(workloads, compiled_steps_pass_their_check) {
  for (const char* name : {"mlp-tiny", "cnn", "batch-jacobian", "pipeline"}) {
    SCOPED_TRACE(name);
    random::set_seed(1);
    EXPECT_GT(make_workload(name, {.check = true}).step(0), 0);
  }
}

TEST(workloads, eager_and_compiled_steps_have_the_same_loss) {
  std::vector<float> losses;
  for (const bool eager : {false, true}) {
    random::set_seed(1);
    const Workload workload = make_workload("mlp-tiny", {.eager = eager});
    EXPECT_EQ(workload.items, 1000);
    EXPECT_EQ(workload.parameters, 5 * 10 + 10 + 10 + 1);
    for (int i = 0; i < 20; ++i) losses.push_back(workload.step(i));
  }
  for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(losses[i], losses[i + 20], 1e-5f * losses[i]);
  EXPECT_LT(losses[19], losses[0]);
}

TEST(workloads, an_unknown_one_is_refused_with_a_list) {
  try {
    make_workload("nonsense");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("workloads are mlp-tiny, mlp, cnn"), std::string::npos) << error.what();
  }
}

// Of 10 rows, number k has the probability (k + 1)^-1.05 / 2.85: 0.351 for the first, 0.0313 for the last.
TEST(workloads, ids_follow_the_power_law) {
  random::set_seed(3);
  const auto batch = click_batch({{f32, {50'000, 1}}, {i32, {50'000, 2}}, {f32, {50'000, 1}}}, 10);
  const auto ids = batch[1].to_vector<std::int64_t>();
  const auto share = [&](std::int64_t k) {
    return static_cast<double>(std::count(ids.begin(), ids.end(), k)) / static_cast<double>(ids.size());
  };
  double sum = 0;
  for (int k = 1; k <= 10; ++k) sum += std::pow(k, -1.05);
  EXPECT_NEAR(share(0), 1 / sum, 0.01);
  EXPECT_NEAR(share(9), std::pow(10, -1.05) / sum, 0.005);
  EXPECT_EQ(*std::max_element(ids.begin(), ids.end()), 9);
  EXPECT_EQ(*std::min_element(ids.begin(), ids.end()), 0);
  EXPECT_NEAR(reduce_mean(batch[2]).item<float>(), 0.5f, 0.02f);
}

}  // namespace
}  // namespace thalweg::models
