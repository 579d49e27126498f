#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::cpu {

// Who computes the tiles of a heavy operation. `automatic` takes the faster one that supports it; tests name one.
enum class Provider : std::uint8_t { automatic, builtin, onednn, amx };

// Compiled primitives kept by the oneDNN provider, summed over all threads. All zero in a build without it.
struct PrimitiveCacheStats {
  std::int64_t hits = 0, misses = 0, evictions = 0, entries = 0;
};
PrimitiveCacheStats primitive_cache_stats();

}  // namespace thalweg::cpu
