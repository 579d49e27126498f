#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace thalweg::bench {

// Bytes of this process that are in memory.
inline std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace thalweg::bench
