#pragma once

#include <algorithm>
#include <cstdint>

namespace thalweg::cpu {

// Divides rows evenly into strips of at most `most` (32 rows are 3 strips of 11, not 14 + 14 + 4).
struct Strips {
  std::int64_t rows, count;
  Strips(std::int64_t rows, std::int64_t most) : rows(rows), count((rows + most - 1) / most) {}
  std::int64_t begin(std::int64_t i) const { return rows / count * i + std::min(i, rows % count); }
  std::int64_t size(std::int64_t i) const { return rows / count + (i < rows % count ? 1 : 0); }
};

}  // namespace thalweg::cpu
