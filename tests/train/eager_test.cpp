// Steps that run op by op: what fit tells of their memory.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/train/folder.h"
#include "tests/train/rows.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::Folder;
using testing::read_file;

TEST(fit, eager_steps_have_a_measured_peak_but_no_plan) {
  struct Peak : train::Callback {
    std::vector<std::int64_t> bytes;
    void on_step_end(train::Session& session) override { bytes.push_back(session.measured_bytes); }
  };
  const Folder folder;
  nn::Sequential model({nn::dense(256, relu), nn::dense(1)});
  optim::Adam adam;
  const auto peak = std::make_shared<Peak>();
  train::fit(model, testing::rows(4096).batch(1024),
             {.optimizer = &adam,
              .loss = losses::mean_squared_error,
              .callbacks = {peak, train::report(folder.path("report.html"))},
              .eager = true});
  ASSERT_EQ(peak->bytes.size(), 4u);
  constexpr std::int64_t activation = 1024 * 256 * sizeof(float);
  for (const auto bytes : peak->bytes) {
    EXPECT_GE(bytes, activation);  // the hidden values wait for the backward pass
    EXPECT_LT(bytes, 6 * activation);
  }
  const std::string page = read_file(folder.path("report.html"));
  EXPECT_NE(page.find("measured peak"), std::string::npos);
  EXPECT_NE(page.find("Steps ran op by op: they have no plan, and there is no plan.svg"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.path("plan.svg")));
}

}  // namespace
}  // namespace thalweg
