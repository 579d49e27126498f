#pragma once

#include <string>

#include "thalweg/nn/module.h"

namespace thalweg::checkpoint {

// The module's weights by name, as one safetensors file with a checksum of each. The file appears whole or not at all.
// Values that wait for layers which are not built yet are in it, too.
TW_API void save_weights(const nn::Module& module, const std::string& path);

struct LoadOptions {
  // false: weights that the file does not have keep their values, and what the module does not have waits for layers
  // that are still to be built.
  bool strict = true;
};

// Gives the module the values of a file, before its first call too: weights that are not made yet take theirs when they
// are. Nothing changes if a tensor is damaged, missing, of another shape, or not of this module. Before the first call
// it is that call that finds out, and fails; Module::set_weights tells where only a warning is possible.
TW_API void load_weights(nn::Module& module, const std::string& path, const LoadOptions& options = {});

}  // namespace thalweg::checkpoint
