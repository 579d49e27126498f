#include "thalweg/backend/describe.h"

#include <fstream>

#include "thalweg/backend/cpu/describe.h"
#include "thalweg/backend/cpu/product_speed.h"
#include "thalweg/backend/nvidia_probe.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::config {
namespace {

// Of the first core, as the kernel reports it ("1024K"): behind a hypervisor CPUID counts other machines' share too.
std::int64_t cache_size(int wanted_level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + '/';
    int level = 0;
    std::int64_t kilobytes = 0;
    std::string type;
    std::ifstream(folder + "level") >> level;
    std::ifstream(folder + "type") >> type;
    if (level != wanted_level || type == "Instruction") continue;
    if (std::ifstream(folder + "size") >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

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
  found.bf16 = cpu::describe_products(bf16);
  found.f16 = cpu::describe_products(f16);
  found.level1_data = cache_size(1);
  found.level2 = cache_size(2);
  found.level3 = cache_size(3);
  found.cores = available_cores();
  found.threads = threads();
  found.memory_total = memory_line("MemTotal:");
  found.memory_available = memory_line("MemAvailable:");
  found.memory_limit = control_group_limit();
  found.libraries = {cpu::product_library(), cpu::vector_library()};
  static const auto nvidia = probe_nvidia();  // once: a driver takes its time
  found.gpus = nvidia.gpus;
  found.gpu_reason = nvidia.reason;
  return found;
}

}  // namespace thalweg::config
