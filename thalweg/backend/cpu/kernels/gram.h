#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace thalweg::cpu {

// The sum of the squares of A^T B, A [depth, m], B [depth, n], without that product: sum over i, j of
// (A A^T)[i, j] (B B^T)[i, j]. In f32 unless rows cancel each other; then in f64, where products of floats are exact:
// they may cancel to a thousandth before the seventh digit of the norm is touched. Where they cancel further, or
// something is not finite, the product is made after all, a tile at a time.
template <class T>
struct Factors {
  std::int64_t depth, m, n;
  const T* a;
  const T* b;
};

std::size_t squares_workspace(std::int64_t depth, std::int64_t m, std::int64_t n);
double sum_of_squares(const Factors<float>& factors, std::span<std::byte> workspace);
double sum_of_squares(const Factors<double>& factors, std::span<std::byte> workspace);

}  // namespace thalweg::cpu
