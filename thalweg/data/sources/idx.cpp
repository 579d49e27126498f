#include "thalweg/interop/idx.h"

#include "thalweg/data/files.h"
#include "thalweg/data/sources.h"

namespace thalweg::data {

Tensor load_idx(const std::string& path) { return read_idx(path); }

Dataset idx(const std::string& path) { return from_tensor_slices(load_idx(path)); }

Dataset idx(const std::string& images, const std::string& labels) {
  return from_tensor_slices({load_idx(images), load_idx(labels)});
}

}  // namespace thalweg::data
