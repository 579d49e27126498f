#include "thalweg/core/device.h"

#include <ostream>

#include "thalweg/core/check.h"

namespace thalweg {

Device::Device(std::string_view name) {
  if (name == "cpu" || name == "cpu:0") return;
  std::string known;
  for (const auto& device : config::devices()) known += (known.empty() ? "" : ", ") + device.name();
  const bool gpu = name.starts_with("cuda") || name.starts_with("gpu");
  TW_FAIL(not_found, "device",
          gpu ? "this build computes on the CPU; `thalweg devices` says why no GPU is used"
              : "use one of the devices listed, for example Device(\"cpu:0\")",
          "no such device: expected one of this machine ({}), got \"{}\"", known, name);
}

std::string Device::name() const { return "cpu:" + std::to_string(index_); }

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.name(); }

namespace config {

std::vector<Device> devices() { return {Device()}; }

}  // namespace config
}  // namespace thalweg
