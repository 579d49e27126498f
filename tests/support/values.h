#pragma once

// Values for tests: drawn from a domain, compared within a tolerance.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/sample.h"

namespace thalweg::testing {

// The same values for the same seed; floats in f64.
std::vector<Tensor> draw(const std::vector<Input>& inputs, unsigned seed);

// Every float tensor in another dtype; the rest as it is.
std::vector<Tensor> in_dtype(const std::vector<Tensor>& tensors, DType dtype);

// |got - want| <= tolerance * (|want| + scale), where scale is the largest finite |want|; NaN equals NaN.
::testing::AssertionResult near(const Tensor& got, const Tensor& want, double tolerance);
::testing::AssertionResult same_bits(const Tensor& got, const Tensor& want);

std::vector<double> as_doubles(const Tensor& tensor);

// Puts the thread count back when it goes.
class Threads {
 public:
  explicit Threads(int threads);
  ~Threads();
};

}  // namespace thalweg::testing
