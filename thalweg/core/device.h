#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "thalweg/core/export.h"

namespace thalweg {

// A place where tensors live and ops run, by name: "cpu" or "cpu:0". A name that this machine does not have throws
// not_found with the list of devices there are.
class TW_API Device {
 public:
  Device() = default;  // cpu:0
  Device(const char* name) : Device(std::string_view(name)) {}
  Device(const std::string& name) : Device(std::string_view(name)) {}
  Device(std::string_view name);

  std::string name() const;
  int index() const { return index_; }
  friend bool operator==(const Device&, const Device&) = default;

 private:
  std::int16_t index_ = 0;
};

TW_API std::ostream& operator<<(std::ostream& out, const Device& device);

namespace config {

TW_API std::vector<Device> devices();

}  // namespace config
}  // namespace thalweg
