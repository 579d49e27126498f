#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace thalweg::cli {

// The arguments make no sense together: exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Each command writes its data to standard output and throws thalweg::Error when it fails.
struct DevicesOptions {
  bool json = false;
};
void devices(const DevicesOptions& options);

struct PlanOptions {
  std::string model;
  std::int64_t batch = 0;  // 0: that of the workload
  std::string memory_budget;
  std::string precision = "f32";
  std::vector<std::string> settings;  // "layers=12"
  std::string svg;                    // a file; empty: no picture
  bool json = false;
};
void plan(const PlanOptions& options);

// "1048576", "512 KiB", "1.5GiB" in bytes; throws UsageError.
std::int64_t parse_size(const std::string& text);

}  // namespace thalweg::cli
