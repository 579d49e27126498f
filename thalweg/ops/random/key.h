#pragma once

#include <optional>

#include "thalweg/core/philox.h"

namespace thalweg::random {

std::uint64_t global_seed();

// The key of a call: its own seed, or the global one with the next number.
Key next_key(const std::optional<std::uint64_t>& seed);

}  // namespace thalweg::random
