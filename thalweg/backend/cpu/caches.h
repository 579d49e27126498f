#pragma once

#include <unistd.h>

namespace thalweg::cpu {

// Whether a core has a second-level cache of 2 MiB, as Intel's servers have. What works ahead of smaller ones, fetching
// and reading in place, was measured to lose there.
inline bool has_large_cache() {
  static const bool large = sysconf(_SC_LEVEL2_CACHE_SIZE) >= 2 << 20;
  return large;
}

}  // namespace thalweg::cpu
