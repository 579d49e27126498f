#pragma once

#include <optional>

#include "thalweg/core/op.h"
#include "thalweg/core/philox.h"

namespace thalweg::random {

std::uint64_t global_seed();

// The key of a call: its own seed, or the global one with the next number.
Key next_key(const std::optional<std::uint64_t>& seed);

// Random ops that are traced read what is not known then as an input, i64 [4]: the seed, the number of the call, and,
// where a batch is cut, the first example and how many there are (0: not cut).
inline constexpr std::int64_t state_size = 4;

// That input; undefined where nothing is traced.
Tensor traced_state();

// What the op draws from when it runs.
struct Drawn {
  Key key;
  std::int64_t first = 0;  // the number of its first element among those that the key is for
};
Drawn drawn(const Key& key, const Array* state, std::int64_t elements);

}  // namespace thalweg::random
