#pragma once

#include <memory>
#include <optional>

#include "tests/golden_runner/runner.h"
#include "thalweg/nn/module.h"

namespace thalweg::golden {

// Tensors of a layer's call by their role: "x", "mask", "h0", …
class LayerInputs {
 public:
  LayerInputs(std::map<std::string, Tensor> tensors, DType dtype) : tensors_(std::move(tensors)), dtype_(dtype) {}
  DType dtype() const { return dtype_; }
  bool has(const std::string& role) const { return tensors_.contains(role); }
  const Tensor& operator[](const std::string& role) const {
    const auto at = tensors_.find(role);
    if (at == tensors_.end()) throw NotUnderstood("input \"" + role + "\" is missing");
    return at->second;
  }

 private:
  std::map<std::string, Tensor> tensors_;
  DType dtype_;
};

// A layer, and what a call of it does.
struct LayerProgram {
  std::unique_ptr<nn::Module> module;
  std::function<std::vector<Tensor>(const LayerInputs&)> call;
};
using MakeLayer = std::function<LayerProgram(const Attributes&, DType)>;

// By the name of the Keras class.
const std::map<std::string, MakeLayer>& layer_table();

// One case of the group `layers`; none: the layer is not known.
std::optional<Result> run_layer(const Case& c, const SafetensorsFile& tensors, DType dtype);

}  // namespace thalweg::golden
