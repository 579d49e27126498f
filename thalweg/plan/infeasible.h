#pragma once

#include "thalweg/plan/ladder.h"

namespace thalweg {

// Throws resource_exhausted: what takes most, the smallest budget that would do, the largest batch that fits.
[[noreturn]] void throw_infeasible(const Ladder& ladder, std::int64_t budget);

// The largest number of examples with which some plan fits; 0: none does; nullopt: the step is not made of examples.
std::optional<std::int64_t> largest_batch(const Ladder& ladder, std::int64_t budget);

// The largest things in memory at the worst moment, named by layer and op; at most `count`.
struct Item {
  std::string name;
  std::int64_t bytes;
};
std::vector<Item> largest_items(const Compiled& compiled, std::size_t count);

}  // namespace thalweg
