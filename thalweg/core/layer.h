#pragma once

// The layer whose code runs on this thread, by its path: errors, plans and profiles name it.
#include <cstdint>
#include <string>

#include "thalweg/core/export.h"

namespace thalweg {

using Layer = std::uint32_t;  // 0: none

inline constexpr const char* optimizer_layer = "optimizer";  // the path of what optimizers do

TW_API Layer layer_of(const std::string& path);  // the same number for the same path
TW_API const std::string& path_of(Layer layer);  // "" for none
TW_API Layer current_layer();

// While it lives, this thread works for the layer.
class TW_API LayerScope {
 public:
  explicit LayerScope(Layer layer);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;

 private:
  Layer outer_;
};

}  // namespace thalweg
