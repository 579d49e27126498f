#include "thalweg/backend/cpu/describe.h"

#include <cpuid.h>

#include <cstring>

#include "thalweg/backend/cpu/targets.h"

#include <hwy/base.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace thalweg::cpu {
namespace {

bool announces_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned amx = 1u << 22 | 1u << 24 | 1u << 25;  // bf16, tile, int8
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & amx) != 0;
}

}  // namespace

std::string model_name() {
  char name[49] = {};
  for (unsigned part = 0; part < 3; ++part) {
    unsigned registers[4] = {};
    if (!__get_cpuid(0x80000002u + part, &registers[0], &registers[1], &registers[2], &registers[3])) return "unknown";
    std::memcpy(name + 16 * part, registers, sizeof registers);
  }
  std::string text = name;
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> found;
#define TW_INSTRUCTION_SET(name) \
  if (__builtin_cpu_supports(name)) found.emplace_back(name)
  TW_INSTRUCTION_SET("sse4.2");
  TW_INSTRUCTION_SET("avx");
  TW_INSTRUCTION_SET("avx2");
  TW_INSTRUCTION_SET("fma");
  TW_INSTRUCTION_SET("f16c");
  TW_INSTRUCTION_SET("avxvnni");
  TW_INSTRUCTION_SET("avx512f");
  TW_INSTRUCTION_SET("avx512bw");
  TW_INSTRUCTION_SET("avx512dq");
  TW_INSTRUCTION_SET("avx512vl");
  TW_INSTRUCTION_SET("avx512vnni");
  TW_INSTRUCTION_SET("avx512bf16");
  TW_INSTRUCTION_SET("avx512fp16");
  TW_INSTRUCTION_SET("amx-tile");
  TW_INSTRUCTION_SET("amx-int8");
  TW_INSTRUCTION_SET("amx-bf16");
#undef TW_INSTRUCTION_SET
  return found;
}

bool amx_without_tiles() {
  if (!announces_amx()) return false;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(0x1D, 0, &eax, &ebx, &ecx, &edx) || eax == 0) return true;
  return !__get_cpuid_count(0x1D, 1, &eax, &ebx, &ecx, &edx) || eax == 0 || ebx == 0;
}

std::string amx_state() {
  if (!announces_amx()) return "absent";
  return amx_without_tiles() ? "announced, but its palette leaf is empty: not used" : "usable";
}

config::Library vector_library() {
  // The best target is the lowest bit; every kernel is dispatched to it.
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  const std::string version =
      std::to_string(HWY_MAJOR) + "." + std::to_string(HWY_MINOR) + "." + std::to_string(HWY_PATCH);
  return {"Highway", version, hwy::TargetName(targets & -targets)};
}

}  // namespace thalweg::cpu
