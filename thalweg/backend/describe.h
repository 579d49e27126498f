#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/core/export.h"

namespace thalweg::config {

struct Library {
  std::string name, version;
  std::string detail;  // what it chose for this machine
};

struct Gpu {
  std::string name;
  std::int64_t memory = 0;  // bytes
};

// What this machine has and what the library makes of it. Sizes are in bytes; 0: not known, or no limit.
struct Hardware {
  std::string cpu;                            // as the processor names itself
  std::vector<std::string> instruction_sets;  // those usable, of the ones that matter here
  std::string amx;                            // "absent", "usable", or why it is left alone
  std::string bf16, f16;                      // how fast their products are, or why they are not used
  std::int64_t level1_data = 0, level2 = 0, level3 = 0;
  int cores = 0;    // that this process may use
  int threads = 0;  // of the pool
  std::int64_t memory_total = 0, memory_available = 0;
  std::int64_t memory_limit = 0;  // of the control group this process runs in
  std::vector<Library> libraries;
  std::vector<Gpu> gpus;   // that the driver reports, used or not
  std::string gpu_reason;  // why no GPU is used
};

TW_API Hardware describe_hardware();

}  // namespace thalweg::config
