#pragma once

// Helpers for tests of raw CPU kernels: every vector target, every thread count, random data, distances.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

// After targets.h.
#include <hwy/highway.h>

namespace thalweg::testing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline void use_targets(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// body() once per compiled target that this processor has.
template <class Body>
void for_each_target(Body body) {
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    SCOPED_TRACE(hwy::TargetName(left & -left));
    use_targets(left & -left);
    body();
  }
  use_targets(0);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// run() gives every output in one vector. Checks 2, 3 and 4 threads against 1 bit by bit and returns the result.
template <class Run>
auto run_with_all_threads(Run run) {
  config::set_threads(1);
  const auto expected = run();
  for (int threads = 2; threads <= 4; ++threads) {
    config::set_threads(threads);
    EXPECT_TRUE(same_bits(expected, run())) << threads << " threads";
  }
  config::set_threads(0);
  return expected;
}

template <class T>
std::vector<T> random_values(std::int64_t n, unsigned seed, double low = -2, double high = 2) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) value = static_cast<T>(distribution(engine));
  return values;
}

template <class T>
std::vector<double> widen(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <class T>
std::vector<T> concatenate(std::initializer_list<std::vector<T>> parts) {
  std::vector<T> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Distances in float (or double) roundings of the largest expected magnitude, or of `magnitude` if the results come
// from larger terms that cancel; NaN and infinity must agree.
template <class T>
void expect_near(const std::vector<T>& actual, const std::vector<double>& expected, double roundings = 16,
                 double magnitude = 0) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = magnitude;
  for (double value : expected)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  const double allowed = roundings * std::numeric_limits<T>::epsilon() * largest;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(actual[i])) << "at " << i << ": " << actual[i];
    } else if (std::isinf(expected[i])) {
      ASSERT_EQ(static_cast<double>(actual[i]), expected[i]) << "at " << i;
    } else {
      ASSERT_LE(std::abs(static_cast<double>(actual[i]) - expected[i]), allowed)
          << "at " << i << ": " << actual[i] << " against " << expected[i];
    }
  }
}

}  // namespace thalweg::testing
