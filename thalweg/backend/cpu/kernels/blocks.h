#pragma once

#include <algorithm>
#include <cstdint>

namespace thalweg::cpu {

inline constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Rows that one task takes: about 16,384 elements, some microseconds of work.
inline constexpr std::int64_t rows_per_task(std::int64_t row_size) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(row_size, 1));
}

// Rows cut into at most 64 equal blocks of at least 16 rows: the first stage of a sum over rows.
struct RowBlocks {
  std::int64_t rows, block;
  constexpr explicit RowBlocks(std::int64_t n) : rows(n), block(std::max<std::int64_t>(16, divide_up(n, 64))) {}
  constexpr std::int64_t count() const { return divide_up(rows, block); }
  constexpr std::int64_t begin(std::int64_t i) const { return i * block; }
  constexpr std::int64_t end(std::int64_t i) const { return std::min(rows, (i + 1) * block); }
};

// Elements that the gradient of a norm down columns needs for its sums: two rows for each block, four more.
inline constexpr std::int64_t gradient_sums_workspace(std::int64_t blocks, std::int64_t n) {
  return (blocks + 2) * 2 * n;
}

// Tasks that need scratch are dealt to a limited number of slots, each with its own area; back and forth, so that tasks
// that grow along the list (causal attention) are spread evenly.
struct Slots {
  std::int64_t tasks, limit = 64;
  constexpr std::int64_t count() const { return std::min(tasks, limit); }
  template <class Body>
  void for_each_task(std::int64_t slot, Body body) const {
    for (std::int64_t round = 0; round * count() < tasks; ++round) {
      const std::int64_t task = round * count() + (round % 2 == 0 ? slot : count() - 1 - slot);
      if (task < tasks) body(task);
    }
  }
};

}  // namespace thalweg::cpu
