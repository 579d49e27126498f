#include <cmath>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "thalweg/cli/commands.h"
#include "thalweg/thalweg.h"

namespace thalweg::cli {
namespace {

using config::Hardware;

std::string size_text(std::int64_t bytes) {
  if (bytes == 0) return "unknown";
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  std::ostringstream out;
  out << std::fixed << std::setprecision(value == std::floor(value) ? 0 : 1) << value << ' ' << units[unit];
  return out.str();
}

void line(const char* label, const std::string& text) {
  std::cout << std::left << std::setw(18) << label << text << '\n';
}

void print_text(const Hardware& hardware) {
  std::string names, sets;
  for (const auto& device : config::devices()) names += (names.empty() ? "" : ", ") + device.name();
  for (const auto& set : hardware.instruction_sets) sets += (sets.empty() ? "" : " ") + set;
  line("devices", names);
  line("processor", hardware.cpu);
  line("instruction sets", sets);
  line("AMX", hardware.amx);
  line("bf16 products", hardware.bf16);
  line("f16 products", hardware.f16);
  line("caches", "level 1 data " + size_text(hardware.level1_data) + ", level 2 " + size_text(hardware.level2) +
                     ", level 3 " + size_text(hardware.level3));
  line("cores", std::to_string(hardware.cores) + " (" + std::to_string(hardware.threads) + " threads in the pool)");
  line("memory", size_text(hardware.memory_total) + ", available " + size_text(hardware.memory_available) +
                     (hardware.memory_limit ? ", limited to " + size_text(hardware.memory_limit) : ""));
  for (const auto& library : hardware.libraries)
    line("library", library.name + ' ' + library.version + " (" + library.detail + ')');
  for (const auto& gpu : hardware.gpus) line("GPU", gpu.name + ", " + size_text(gpu.memory));
  line("GPU not used", hardware.gpu_reason);
}

void print_json(const Hardware& hardware) {
  using nlohmann::ordered_json;
  ordered_json out;
  out["devices"] = ordered_json::array();
  for (const auto& device : config::devices()) out["devices"].push_back(device.name());
  out["cpu"] = {
      {"model", hardware.cpu},
      {"instruction_sets", hardware.instruction_sets},
      {"amx", hardware.amx},
      {"bf16", hardware.bf16},
      {"f16", hardware.f16},
      {"cores", hardware.cores},
      {"threads", hardware.threads},
      {"caches", {{"level1_data", hardware.level1_data}, {"level2", hardware.level2}, {"level3", hardware.level3}}}};
  out["memory"] = {{"total", hardware.memory_total}, {"available", hardware.memory_available}};
  out["memory"]["limit"] = hardware.memory_limit ? ordered_json(hardware.memory_limit) : ordered_json();
  out["libraries"] = ordered_json::array();
  for (const auto& library : hardware.libraries)
    out["libraries"].push_back({{"name", library.name}, {"version", library.version}, {"detail", library.detail}});
  out["gpus"] = ordered_json::array();
  for (const auto& gpu : hardware.gpus) out["gpus"].push_back({{"name", gpu.name}, {"memory", gpu.memory}});
  out["gpu_reason"] = hardware.gpu_reason;
  std::cout << out.dump() << '\n';
}

}  // namespace

void devices(const DevicesOptions& options) {
  const Hardware hardware = config::describe_hardware();
  options.json ? print_json(hardware) : print_text(hardware);
}

}  // namespace thalweg::cli
