#include "thalweg/backend/describe.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "thalweg/core/thread_pool.h"
#include "thalweg/version.h"

namespace thalweg {
namespace {

TEST(DescribeHardware, names_the_processor_and_its_baseline) {
  const auto hardware = config::describe_hardware();
  EXPECT_FALSE(hardware.cpu.empty());
  EXPECT_EQ(std::ranges::count(hardware.instruction_sets, "avx2"), __builtin_cpu_supports("avx2") ? 1 : 0);
  EXPECT_FALSE(hardware.amx.empty());
}

TEST(DescribeHardware, counts_the_cores_this_process_may_use) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(config::describe_hardware().cores, CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(config::describe_hardware().cores, 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(DescribeHardware, reports_the_pool_in_use) {
  config::set_threads(3);
  EXPECT_EQ(config::describe_hardware().threads, 3);
  config::set_threads(0);
}

TEST(DescribeHardware, memory_and_caches_are_plausible) {
  const auto hardware = config::describe_hardware();
  EXPECT_GT(hardware.memory_total, 0);
  EXPECT_LE(hardware.memory_available, hardware.memory_total);
  EXPECT_LE(hardware.level1_data, hardware.level2 ? hardware.level2 : hardware.level1_data);
}

TEST(DescribeHardware, tells_libraries_and_why_no_gpu_is_used) {
  const auto hardware = config::describe_hardware();
  ASSERT_EQ(hardware.libraries.size(), 2u);
#ifdef THALWEG_ONEDNN
  EXPECT_EQ(hardware.libraries[0].name, "oneDNN");
  EXPECT_EQ(hardware.libraries[0].version[0], '3');
#endif
  EXPECT_EQ(hardware.libraries[1].name, "Highway");
  for (const auto& library : hardware.libraries) EXPECT_FALSE(library.detail.empty());
  EXPECT_FALSE(hardware.gpu_reason.empty());
}

TEST(Version, of_headers_and_library_agree) { EXPECT_STREQ(version(), THALWEG_VERSION); }

}  // namespace
}  // namespace thalweg
