#include "thalweg/nn/sequential.h"

#include <map>

#include "thalweg/core/check.h"
#include "thalweg/nn/activations.h"

namespace thalweg::nn {

LayerMaker::LayerMaker(std::string kind, std::string name, Make make)
    : kind_(std::move(kind)), name_(std::move(name)), make_(std::move(make)) {}

LayerMaker::LayerMaker(const Activation& function)
    : LayerMaker("lambda", "", [function](Module& parent, std::string name) -> std::unique_ptr<Layer> {
        return std::make_unique<Lambda>(parent, std::move(name), LambdaOptions{.function = function});
      }) {}

Sequential::Sequential(const std::vector<LayerMaker>& layers) { add(layers); }

Sequential::Sequential(Module& parent, std::string name, const std::vector<LayerMaker>& layers)
    : Layer(parent, std::move(name)) {
  add(layers);
}

void Sequential::add(const std::vector<LayerMaker>& layers) {
  std::map<std::string, int> numbers;
  for (const auto& layer : layers) {
    std::string name = layer.name();
    if (name.empty()) {
      const int number = numbers[layer.kind()]++;
      name = number == 0 ? layer.kind() : layer.kind() + "_" + std::to_string(number);
    }
    layers_.push_back(layer.make(*this, std::move(name)));
  }
}

Tensor Sequential::call(const Tensor& x) {
  Tensor y = x;
  for (const auto& layer : layers_) y = (*layer)(y);
  return y;
}

Tensor Residual::call(const Tensor& x) {
  const Tensor body = body_(x), shortcut = shortcut_(x);
  TW_CHECK_USER(body.shape() == shortcut.shape(), "residual", "a shortcut of its own can change the shape of x",
                "expected a body that gives {} as the shortcut does, got {}", shortcut.shape(), body.shape());
  return options_.activation(shortcut + body);
}

}  // namespace thalweg::nn
