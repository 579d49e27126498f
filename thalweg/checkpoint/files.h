#pragma once

// The files inside of one checkpoint: NAME.safetensors for every item that has tensors, and manifest.json.
#include "thalweg/checkpoint/item.h"
#include "thalweg/checkpoint/manifest.h"

namespace thalweg::checkpoint {

void write_files(const std::string& folder, std::int64_t step, const std::vector<NamedItem>& items);

struct Contents {
  std::map<std::string, ItemState> states;  // of the items asked for
  random::State random;
};

// data_loss: something is not what was written. not_found: the checkpoint never had an item.
Contents read_files(const std::string& folder, const std::vector<NamedItem>& items);

// Checks that all states fit, then loads them.
void load(const Contents& contents, const std::vector<NamedItem>& items);

}  // namespace thalweg::checkpoint
