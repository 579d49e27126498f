#pragma once

namespace thalweg::cli {

// Each command writes its data to standard output and throws thalweg::Error when it fails.
struct DevicesOptions {
  bool json = false;
};
void devices(const DevicesOptions& options);

}  // namespace thalweg::cli
