#include "thalweg/backend/cpu/describe.h"

#include <cpuid.h>

#include <cstring>

#include "thalweg/backend/cpu/amx/tiles.h"
#include "thalweg/backend/cpu/targets.h"

#include <hwy/base.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace thalweg::cpu {
namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Zeros for a leaf that the processor does not have.
Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers found;
  __get_cpuid_count(leaf, subleaf, &found.eax, &found.ebx, &found.ecx, &found.edx);
  return found;
}

// Which registers the operating system saves: an instruction set counts only with its registers.
std::uint64_t saved_registers() {
  if ((cpuid(1, 0).ecx >> 27 & 1) == 0) return 0;
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

constexpr std::uint64_t kSse = 0x2, kAvx = 0x6, kAvx512 = 0xE6, kTiles = 0x60000;

struct Feature {
  const char* name;
  unsigned leaf, subleaf;
  unsigned Registers::*word;
  int bit;
  std::uint64_t registers;
};

constexpr Feature kFeatures[] = {
    {"sse4.2", 1, 0, &Registers::ecx, 20, kSse},        {"avx", 1, 0, &Registers::ecx, 28, kAvx},
    {"avx2", 7, 0, &Registers::ebx, 5, kAvx},           {"fma", 1, 0, &Registers::ecx, 12, kAvx},
    {"f16c", 1, 0, &Registers::ecx, 29, kAvx},          {"avxvnni", 7, 1, &Registers::eax, 4, kAvx},
    {"avx512f", 7, 0, &Registers::ebx, 16, kAvx512},    {"avx512bw", 7, 0, &Registers::ebx, 30, kAvx512},
    {"avx512dq", 7, 0, &Registers::ebx, 17, kAvx512},   {"avx512vl", 7, 0, &Registers::ebx, 31, kAvx512},
    {"avx512vnni", 7, 0, &Registers::ecx, 11, kAvx512}, {"avx512bf16", 7, 1, &Registers::eax, 5, kAvx512},
    {"avx512fp16", 7, 0, &Registers::edx, 23, kAvx512}, {"amx-tile", 7, 0, &Registers::edx, 24, kTiles},
    {"amx-int8", 7, 0, &Registers::edx, 25, kTiles},    {"amx-bf16", 7, 0, &Registers::edx, 22, kTiles},
};

bool announces_amx() {
  constexpr unsigned amx = 1u << 22 | 1u << 24 | 1u << 25;  // bf16, tile, int8
  return (cpuid(7, 0).edx & amx) != 0;
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
  const std::uint64_t saved = saved_registers();
  std::vector<std::string> found;
  for (const Feature& feature : kFeatures) {
    const Registers registers = cpuid(feature.leaf, feature.subleaf);
    const bool there = registers.*feature.word >> feature.bit & 1;
    if (there && (saved & feature.registers) == feature.registers) found.emplace_back(feature.name);
  }
  return found;
}

bool amx_without_tiles() {
  if (!announces_amx()) return false;
  const Registers palettes = cpuid(0x1D, 0), first = cpuid(0x1D, 1);
  return palettes.eax == 0 || first.eax == 0 || first.ebx == 0;
}

std::string amx_state() {
  if (!announces_amx()) return "absent";
  if ((saved_registers() & kTiles) != kTiles) return "announced, but the system does not save its registers";
  if (!amx::usable())
    return "announced, but not used: the system grants no memory for tiles, or a trial of them failed";
  return amx_without_tiles() ? "usable, although its palette leaf is empty" : "usable";
}

config::Library vector_library() {
  // The best target is the lowest bit; every kernel is dispatched to it.
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  const std::string version =
      std::to_string(HWY_MAJOR) + "." + std::to_string(HWY_MINOR) + "." + std::to_string(HWY_PATCH);
  return {"Highway", version, hwy::TargetName(targets & -targets)};
}

}  // namespace thalweg::cpu
