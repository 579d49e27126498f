#pragma once

#include <functional>
#include <memory>

#include "thalweg/nn/activation.h"
#include "thalweg/nn/layer.h"

namespace thalweg::nn {

// A layer to be made inside a parent. makers.h has a function for every layer: tw::nn::dense(10, tw::relu). Any
// function of one tensor is one too: tw::relu.
class TW_API LayerMaker {
 public:
  using Make = std::function<std::unique_ptr<Layer>(Module& parent, std::string name)>;
  // `name` if it is not empty; otherwise `kind`, with a number from the second of its kind on: dense, dense_1, …
  LayerMaker(std::string kind, std::string name, Make make);
  LayerMaker(const Activation& function);
  template <class F>
  requires(!std::is_same_v<F, LayerMaker> && !std::is_same_v<F, Activation> && std::is_constructible_v<Activation, F>)
      LayerMaker(F function)
      : LayerMaker(Activation(std::move(function))) {}

  const std::string& kind() const { return kind_; }
  const std::string& name() const { return name_; }
  std::unique_ptr<Layer> make(Module& parent, std::string name) const { return make_(parent, std::move(name)); }

 private:
  std::string kind_, name_;
  Make make_;
};

// Layers one after the other: tw::nn::Sequential model({tw::nn::dense(10, tw::relu), tw::nn::dense(1)});
class TW_API Sequential : public Layer {
 public:
  explicit Sequential(const std::vector<LayerMaker>& layers);
  Sequential(Module& parent, std::string name, const std::vector<LayerMaker>& layers);

  std::size_t size() const { return layers_.size(); }
  Layer& operator[](std::size_t i) const { return *layers_.at(i); }

 protected:
  Tensor call(const Tensor& x) override;

 private:
  void add(const std::vector<LayerMaker>& layers);
  std::vector<std::unique_ptr<Layer>> layers_;
};

struct ResidualOptions {
  std::vector<LayerMaker> body = {};
  std::vector<LayerMaker> shortcut = {};  // none: x itself
  Activation activation = {};             // of the sum
  std::string name = {};
};

// activation(shortcut(x) + body(x))
class TW_API Residual : public LayerWith<ResidualOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;

 private:
  Sequential body_{*this, "body", options_.body};
  Sequential shortcut_{*this, "shortcut", options_.shortcut};
};

}  // namespace thalweg::nn
