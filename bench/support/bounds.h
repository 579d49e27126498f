#pragma once

#include <cstdio>
#include <string>

namespace thalweg::bench {

inline int faults = 0;  // figures out of their bounds

inline void require(bool good, const std::string& what) {
  if (good) return;
  std::printf("  OUT OF BOUNDS: %s\n", what.c_str());
  ++faults;
}

// The status that a benchmark leaves with.
inline int status() {
  if (faults > 0) std::printf("%d figures out of bounds\n", faults);
  return faults > 0 ? 1 : 0;
}

}  // namespace thalweg::bench
