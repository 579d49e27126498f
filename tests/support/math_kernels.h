#pragma once

// Every function of math-inl.h as an array kernel, for each compiled target. n must be a multiple of 16.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace thalweg::test {

template <class T>
using UnaryKernel = void (*)(const T* x, T* y, size_t n);
template <class T>
using BinaryKernel = void (*)(const T* a, const T* b, T* y, size_t n);

struct UnaryFunction {
  const char* name;
  UnaryKernel<float> f32;
  UnaryKernel<double> f64;
};

struct BinaryFunction {
  const char* name;
  BinaryKernel<float> f32;
  BinaryKernel<double> f64;
};

struct MathKernels {
  const char* target;
  std::span<const UnaryFunction> unary;
  std::span<const BinaryFunction> binary;
};

// One entry for each compiled target that this CPU supports, the best first.
std::vector<MathKernels> math_kernels();

}  // namespace thalweg::test
