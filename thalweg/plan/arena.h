#pragma once

#include <cstdint>
#include <vector>

namespace thalweg {

// A block of bytes that is needed from step `first` to step `last`, both included.
struct Interval {
  std::int64_t bytes;
  int first, last;
  std::int64_t offset = 0;
};

// Gives every interval an offset such that no two that overlap in time overlap in memory: the largest first, each into
// the tightest gap. Returns the bytes needed; offsets are multiples of 64.
std::int64_t pack(std::vector<Interval>& intervals);

// Bytes alive at each step; their largest is a lower bound of any packing.
std::vector<std::int64_t> live_bytes(const std::vector<Interval>& intervals, int steps);

}  // namespace thalweg
