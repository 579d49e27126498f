#pragma once

#include <span>
#include <string>

#include "thalweg/core/tensor.h"

namespace thalweg {

// What the header of an npy array says, and how long the header is.
struct NpyHeader {
  Spec spec;
  std::int64_t bytes = 0;  // in front of the values
};

inline constexpr std::int64_t largest_npy_header = 10'000 + 12;  // NumPy's own limit, and what stands before it

// From the first bytes of an array, largest_npy_header of them or all there are; `place` names it in errors. Values
// follow, `total` bytes with the header.
NpyHeader parse_npy_header(std::span<const char> bytes, std::int64_t total, const std::string& place);

}  // namespace thalweg
