#pragma once

#include <algorithm>
#include <cstdint>

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/core/shape.h"
#include "thalweg/core/small_vector.h"

namespace thalweg::cpu {

inline constexpr std::int64_t block_rows = 1024, tile_columns = 128, task_elements = 32 * 1024;

// One group of neighbouring axes reduced: x [outer, n, inner] -> y [outer, inner].
struct Step {
  std::int64_t outer, n, inner;

  std::int64_t width() const { return std::clamp<std::int64_t>(inner, 1, tile_columns); }
  std::int64_t tiles() const { return divide_up(inner, tile_columns); }
  // Rows of n that one task takes: a power of two of blocks, so that chunks are whole subtrees.
  std::int64_t chunk_rows() const {
    std::int64_t rows = block_rows;
    while (rows * width() < task_elements) rows *= 2;
    return rows;
  }
  std::int64_t chunks() const { return divide_up(n, chunk_rows()); }
};
using Steps = SmallVector<Step, 4>;

// The steps of a reduction: axes collapsed into groups, the largest first, which leaves the least for the others.
Steps plan_steps(const Shape& shape, const Ints& axes);

}  // namespace thalweg::cpu
