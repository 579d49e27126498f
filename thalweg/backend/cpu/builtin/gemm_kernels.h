#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::cpu::builtin {

// C[i, j] (+)= sum over p of A[i, p] B[p, j], with
//   A[i, p] = a[i * a_row + p * a_depth]   B[p, j] = b[p * b_depth + j * b_column]   C[i, j] = c[i * ldc + j]
template <class T>
struct Product {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t a_row, a_depth;
  const T* b;
  std::int64_t b_depth, b_column;
  T* c;
  std::int64_t ldc;
  bool accumulate;
};

inline constexpr std::int64_t kBlockRows = 252;   // of A packed at a time: a multiple of the panels of 6 and 14 rows
inline constexpr std::int64_t kBlockDepth = 256;  // f32: 252 KiB of A stay in L2, a panel of B (32 KiB) in L1

// packed_a holds kBlockRows * kBlockDepth elements; null: A is read in place.
void multiply(const Product<float>& product, float* packed_a);
void multiply(const Product<double>& product, double* packed_a);

}  // namespace thalweg::cpu::builtin
