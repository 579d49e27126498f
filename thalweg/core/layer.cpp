#include "thalweg/core/layer.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace thalweg {
namespace {

struct Paths {
  std::mutex mutex;
  std::deque<std::string> names{""};
  std::unordered_map<std::string, Layer> numbers;
};

Paths& paths() {
  static auto* state = new Paths;
  return *state;
}

thread_local Layer current = 0;

}  // namespace

Layer layer_of(const std::string& path) {
  if (path.empty()) return 0;
  auto& all = paths();
  std::lock_guard lock(all.mutex);
  const auto [at, is_new] = all.numbers.try_emplace(path, static_cast<Layer>(all.names.size()));
  if (is_new) all.names.push_back(path);
  return at->second;
}

const std::string& path_of(Layer layer) {
  auto& all = paths();
  std::lock_guard lock(all.mutex);
  return all.names[layer];
}

Layer current_layer() { return current; }

LayerScope::LayerScope(Layer layer) : outer_(current) { current = layer; }
LayerScope::~LayerScope() { current = outer_; }

}  // namespace thalweg
