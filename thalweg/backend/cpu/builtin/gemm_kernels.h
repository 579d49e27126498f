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
  const T* panels = nullptr;  // what pack_panels made of b, which is then not read
  bool b_in_place = false;    // few rows: B, which comes from memory, is read as it lies and ahead of its use
  const T* fetch = nullptr;   // laid out as C: what is read next, to be in the caches when C is there
};

inline constexpr std::int64_t kBlockRows = 252;   // of A packed at a time: a multiple of the panels of 6 and 14 rows
inline constexpr std::int64_t kBlockDepth = 256;  // f32: 252 KiB of A stay in L2, a panel of B (32 KiB) in L1

// packed_a holds kBlockRows * kBlockDepth elements; null: A is read in place.
void multiply(const Product<float>& product, float* packed_a);
void multiply(const Product<double>& product, double* packed_a);

// B as the kernels read it, for several products with one B: panels holds panels_size(n, k) elements. Columns from
// `begin`, a multiple of kPanelColumns, to `end` are packed.
inline constexpr std::int64_t kPanelColumns = 64;
std::int64_t panels_size(std::int64_t n, std::int64_t k);
void pack_panels(const Product<float>& product, std::int64_t begin, std::int64_t end, float* panels);
void pack_panels(const Product<double>& product, std::int64_t begin, std::int64_t end, double* panels);

}  // namespace thalweg::cpu::builtin
