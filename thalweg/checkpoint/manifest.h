#pragma once

// manifest.json, the file of a checkpoint that says what the others must be. It is under a checksum itself.
#include <cstdint>
#include <map>
#include <string>

#include "thalweg/ops/random/random.h"

namespace thalweg::checkpoint {

struct ManifestItem {
  std::string kind, text;
  std::string file;  // empty: the item has no tensors
  std::int64_t bytes = 0;
  std::uint32_t checksum = 0;
};

struct Manifest {
  std::int64_t step = 0;
  random::State random;
  std::map<std::string, ManifestItem> items;
};

std::string to_json(const Manifest& manifest);
Manifest parse_manifest(const std::string& json);  // data_loss: not what to_json wrote

}  // namespace thalweg::checkpoint
