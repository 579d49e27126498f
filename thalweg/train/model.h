#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include "thalweg/losses/losses.h"
#include "thalweg/nn/module.h"

namespace thalweg::train {

// A model as the training loop sees it: a module that is called with one to four tensors. The first parts of an element
// of the data are its inputs, the next one is what it should give, and one more, if there is one, the examples'
// weights.
class Model {
 public:
  using Call = std::function<Tensor(std::span<const Tensor>)>;

  template <std::derived_from<nn::Module> M>
  Model(M& model) : Model(model, inputs_of<M>(), [&model](std::span<const Tensor> x) { return call(model, x); }) {}
  Model(nn::Module& module, int inputs, Call call) : module_(&module), inputs_(inputs), call_(std::move(call)) {}

  nn::Module& module() const { return *module_; }
  int inputs() const { return inputs_; }
  Tensor operator()(std::span<const Tensor> inputs) const { return call_(inputs); }

 private:
  template <class M>
  static constexpr int inputs_of() {
    if constexpr (std::is_invocable_v<M&, Tensor>)
      return 1;
    else if constexpr (std::is_invocable_v<M&, Tensor, Tensor>)
      return 2;
    else if constexpr (std::is_invocable_v<M&, Tensor, Tensor, Tensor>)
      return 3;
    else
      return 4;
  }
  template <class M>
  static Tensor call(M& model, std::span<const Tensor> x) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return Tensor(model(x[i]...)); }
    (std::make_index_sequence<static_cast<std::size_t>(inputs_of<M>())>());
  }

  nn::Module* module_;
  int inputs_;
  Call call_;
};

// What is to become small: one of tw::losses, or a callable over y_true and y_pred, or over these and the examples'
// weights, which are undefined where there are none.
class Loss {
 public:
  Loss() = default;
  template <class Options>
  requires(requires(Options options) { options.sample_weight; })
      Loss(Tensor (*loss)(const Tensor&, const Tensor&, const Options&))
      : takes_weights_(true), call_([loss](const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
          Options options;
          options.sample_weight = weight;
          return loss(y_true, y_pred, options);
        }) {}
  template <class F>
  requires(std::is_invocable_r_v<Tensor, F&, Tensor, Tensor, Tensor>) Loss(F loss)
      : takes_weights_(true), call_(std::move(loss)) {}
  template <class F>
  requires(std::is_invocable_r_v<Tensor, F&, Tensor, Tensor> &&
           !std::is_invocable_r_v<Tensor, F&, Tensor, Tensor, Tensor>) Loss(F loss)
      : call_([loss = std::move(loss)](const Tensor& y_true, const Tensor& y_pred, const Tensor&) mutable {
          return Tensor(loss(y_true, y_pred));
        }) {}

  explicit operator bool() const { return static_cast<bool>(call_); }
  bool takes_weights() const { return takes_weights_; }
  Tensor operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) const {
    return call_(y_true, y_pred, weight);
  }

 private:
  bool takes_weights_ = false;
  std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> call_;
};

}  // namespace thalweg::train
