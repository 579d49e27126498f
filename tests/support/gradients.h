#pragma once

#include <gtest/gtest.h>

#include "tests/support/sample.h"

namespace thalweg::testing {

// The tape's gradient of a sample in f64 against directional differences: relative 1e-6.
::testing::AssertionResult check_first_order(const Sample& sample, unsigned seed);

// The gradient of the gradient, by a tape in a tape: relative 1e-4.
::testing::AssertionResult check_second_order(const Sample& sample, unsigned seed);

}  // namespace thalweg::testing
