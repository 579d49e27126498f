#include "thalweg/backend/describe.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "thalweg/backend/cpu/describe.h"
#include "thalweg/backend/nvidia_probe.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::config {
namespace {

std::int64_t cache_size(int name) { return std::max<std::int64_t>(0, sysconf(name)); }

// A line "key:  n kB" of /proc/meminfo.
std::int64_t memory_line(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kilobytes = 0;
  while (file >> word)
    if (word == key && file >> kilobytes) return kilobytes * 1024;
  return 0;
}

// A file that holds one number, or "max" where there is no limit.
std::int64_t control_group_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  std::int64_t bytes = 0;
  return file >> bytes ? bytes : 0;
}

}  // namespace

Hardware describe_hardware() {
  Hardware found;
  found.cpu = cpu::model_name();
  found.instruction_sets = cpu::instruction_sets();
  found.amx = cpu::amx_state();
  found.level1_data = cache_size(_SC_LEVEL1_DCACHE_SIZE);
  found.level2 = cache_size(_SC_LEVEL2_CACHE_SIZE);
  found.level3 = cache_size(_SC_LEVEL3_CACHE_SIZE);
  found.cores = static_cast<int>(std::thread::hardware_concurrency());
  found.threads = threads();
  found.memory_total = memory_line("MemTotal:");
  found.memory_available = memory_line("MemAvailable:");
  found.memory_limit = control_group_limit();
  found.libraries = {cpu::product_library(), cpu::vector_library()};
  auto nvidia = probe_nvidia();
  found.gpus = std::move(nvidia.gpus);
  found.gpu_reason = std::move(nvidia.reason);
  return found;
}

}  // namespace thalweg::config
