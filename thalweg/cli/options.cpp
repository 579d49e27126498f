// Values of options, and what they ask of the machine.
#include <algorithm>

#include "thalweg/cli/commands.h"

namespace thalweg::cli {

std::map<std::string, std::string> parse_settings(const char* option, const std::vector<std::string>& list) {
  std::map<std::string, std::string> settings;
  for (const auto& one : list) {
    const auto equals = one.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError("expected " + std::string(option) + " key=value, got \"" + one + "\"");
    settings[one.substr(0, equals)] = one.substr(equals + 1);
  }
  return settings;
}

Precision parse_precision(const std::string& name) {
  return name == "bf16" ? Precision::bf16 : name == "f16" ? Precision::f16 : Precision::f32;
}

void check_device(const char* command, const std::string& device) {
  if (device != "cpu" && device != "cpu:0")
    throw Error(ErrorCode::unavailable, command, "there is no device \"" + device + "\"",
                "thalweg devices lists those that are there, and says why others are not");
}

std::int64_t free_memory() {
  const auto hardware = config::describe_hardware();
  if (hardware.memory_limit == 0) return hardware.memory_available;
  return std::min(hardware.memory_available, hardware.memory_limit - config::memory_info().in_use);
}

void limit_memory() {
  if (const std::int64_t free = free_memory(); free > 0) config::memory_limit({}, config::memory_info().in_use + free);
}

}  // namespace thalweg::cli
