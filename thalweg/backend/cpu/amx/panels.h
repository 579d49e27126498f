#pragma once

// Columns of an f32 product over tiles, packed once for many threads' rows.
#include <cstddef>

#include "thalweg/backend/cpu/amx/pack.h"

namespace thalweg::cpu::amx {

// a^T b with a [depth, m] and b [depth, n].
class Panels {
 public:
  Panels(std::int64_t depth, std::int64_t n) : depth_(depth), n_(n) {}

  // Whether that is faster than products of vectors.
  static bool pays(std::int64_t depth, std::int64_t m, std::int64_t n);

  std::int64_t strips() const;  // of 32 columns
  std::size_t bytes() const;    // of all of them packed
  // Strips first … last of b; threads may pack different ones.
  void pack(const float* b, std::int64_t first, std::int64_t last, std::byte* panels) const;

  // Some columns of a, and where the product goes.
  struct Rows {
    std::int64_t rows, lda;
    const float* a;
    float* product;  // [rows, n]
  };
  std::size_t scratch_bytes() const;
  void multiply(const Rows& rows, const float* b, std::byte* panels, std::byte* scratch) const;

 private:
  std::int64_t depth_, n_;
};

}  // namespace thalweg::cpu::amx
