#pragma once

#include "thalweg/nn/module.h"

namespace thalweg::nn {

// A module that makes one tensor of one: what a Sequential is a list of. One of your own:
//   struct Scale : tw::nn::Layer {
//     using tw::nn::Layer::Layer;
//     void build(const tw::Spec& x) override { factor = add_variable("factor", {x.shape.last()}, initializers::ones); }
//     tw::Tensor call(const tw::Tensor& x) override { return x * factor; }
//     tw::Variable factor;
//   };
class TW_API Layer : public Module {
 public:
  using Module::Module;
  Tensor operator()(const Tensor& x);

 protected:
  virtual void build(const Spec& x);  // before the first call: makes the weights
  virtual Tensor call(const Tensor& x) = 0;
  // For weights that meet x element by element: they must not stretch it.
  static void check_fits(const char* layer, const Shape& weights, const Shape& x);
};

// A layer with options. A parent's layer has the name given beside it, a root the one among its options.
template <class Options>
class TW_API LayerWith : public Layer {
 public:
  explicit LayerWith(Options options = {}) : Layer(options.name), options_(std::move(options)) {}
  LayerWith(Module& parent, std::string name, Options options = {})
      : Layer(parent, std::move(name)), options_(std::move(options)) {}
  const Options& options() const { return options_; }

 protected:
  const Options options_;
};

}  // namespace thalweg::nn
