#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/nn/makers.h"
#include "thalweg/nn/prune.h"
#include "thalweg/nn/training.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg::nn {
namespace {

using Places = std::vector<std::int64_t>;

[[noreturn]] void cannot(const Layer& layer, const std::string& why) {
  TW_FAIL(unimplemented, "shrink", "shrink the part of the model before it, or put the layer outside of the Sequential",
          "layer \"{}\" cannot be made smaller: {}", layer.path(), why);
}

// A weight by its name in the layer; undefined: there is none.
Tensor weight(const Layer& layer, const std::string& name) {
  for (const auto& variable : layer.variables())
    if (variable.name() == layer.path() + "/" + name) return variable;
  return {};
}

Tensor taken(const Tensor& x, const Places& places, std::int64_t axis) {
  return gather(x, Tensor::from(places, {static_cast<std::int64_t>(places.size())}), {.axis = axis});
}

// Places of the last axis at which all elements are zero.
std::vector<bool> zeros_of(const Tensor& x, std::vector<bool> among) {
  const auto values = x.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0) among[i % among.size()] = false;
  return among;
}

// Whether each element of the result depends on its own alone, and zero gives zero: seen by trying.
bool keeps_zeros(const Activation& function, std::int64_t width, DType dtype) {
  const std::int64_t half = std::max<std::int64_t>(width / 2, 1);
  try {
    const Tensor x = random::normal({2, width}, {.seed = 1, .dtype = dtype});
    const auto first = [&](const Tensor& t) { return slice(t, {0, 0}, {2, half}).to_vector<double>(); };
    const auto of_zero = function(zeros({2, width}, dtype)).to_vector<double>();
    return std::all_of(of_zero.begin(), of_zero.end(), [](double y) { return y == 0; }) &&
           first(function(x)) == function(slice(x, {0, 0}, {2, half})).to_vector<double>();
  } catch (const Error&) {
    return false;
  }
}

template <class L>
const L* as(const Layer& layer) {
  return dynamic_cast<const L*>(&layer);
}

template <class Options>
Options named(const Layer& layer, Options options) {
  options.name = layer.name();
  return options;
}

// A layer without weights, made again; none: it is of another kind.
template <class... L>
std::optional<LayerMaker> remade(const Layer& layer) {
  std::optional<LayerMaker> made;
  (void)((as<L>(layer) && (made = maker<L>("layer", named(layer, as<L>(layer)->options())), true)) || ...);
  return made;
}

std::optional<LayerMaker> without_weights(const Layer& layer) {
  return remade<MaxPool, AvgPool, GlobalAvgPool, GlobalMaxPool, ZeroPadding, UpSampling2D, Flatten, Dropout, ReLU,
                LeakyReLU, ELU, Softmax, Lambda>(layer);
}

// The layers as they will be, and which channels of the last one's result are left.
class Shrinking {
 public:
  explicit Shrinking(const Sequential& model) : model_(model) {
    for (std::size_t i = 0; i < model.size(); ++i)
      if (kernel_of(model[i]).defined()) last_ = i;
    for (std::size_t i = 0; i < model.size(); ++i) add(i);
  }

  std::unique_ptr<Sequential> finish() const {
    auto small = std::make_unique<Sequential>(makers_);
    small->set_weights(weights_);
    small->set_trainable(model_.trainable());
    for (std::size_t i = 0; model_.trainable() && i < model_.size(); ++i)
      (*small)[i].set_trainable(model_[i].trainable());
    return small;
  }

 private:
  static bool has_units(const Layer& layer) { return as<Dense>(layer) || as<ConvLayer>(layer); }
  static Tensor kernel_of(const Layer& layer) { return has_units(layer) ? weight(layer, "kernel") : Tensor(); }

  void add(std::size_t i) {
    const Layer& layer = model_[i];
    if (has_units(layer)) return add_units(i);
    if (as<BatchNorm>(layer)) return add_norm(layer);
    const auto made = without_weights(layer);
    if (!made) cannot(layer, "it is of a kind that shrink does not know");
    makers_.push_back(*made);
  }

  void keep(const Layer& layer, const std::string& name, const Tensor& value) {
    if (value.defined()) weights_[layer.name() + "/" + name] = value;
  }

  void add_units(std::size_t i) {
    const Layer& layer = model_[i];
    check_kind(layer);
    Tensor kernel = weight(layer, "kernel"), bias = weight(layer, "bias");
    TW_CHECK(failed_precondition, kernel.defined(), "shrink", "call the model once, so that its weights are made",
             "expected a model with weights, got layer \"{}\" without", layer.path());
    if (!channels_.empty()) kernel = taken(kernel, inputs(layer, kernel.shape()[kernel.rank() - 2]), kernel.rank() - 2);
    const Places units = i == last_ ? all_of(kernel.shape().last()) : living(i, kernel, bias);
    keep(layer, "kernel", taken(kernel, units, -1));
    if (bias.defined()) keep(layer, "bias", taken(bias, units, 0));
    makers_.push_back(maker_of(layer, static_cast<std::int64_t>(units.size())));
    channels_ = units, channel_count_ = kernel.shape().last();
  }

  static void check_kind(const Layer& layer) {
    const auto* convolution = as<ConvLayer>(layer);
    if (!convolution) return;
    if (as<Conv1DTranspose>(layer) || as<Conv2DTranspose>(layer)) cannot(layer, "it is a transposed convolution");
    if (convolution->options().groups != 1) cannot(layer, "its channels are in groups");
  }

  static Places all_of(std::int64_t count) {
    Places all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(i);
    return all;
  }

  // What is left of so many inputs of a layer; behind a flatten every place of an image has all channels.
  Places inputs(const Layer& layer, std::int64_t size) const {
    if (size % channel_count_ != 0) cannot(layer, "the layer before has another number of channels");
    Places rows;
    for (std::int64_t place = 0; place < size / channel_count_; ++place)
      for (const auto channel : channels_) rows.push_back(place * channel_count_ + channel);
    return rows;
  }

  // Units that can be other than zero at the next layer with units.
  Places living(std::size_t i, const Tensor& kernel, const Tensor& bias) const {
    const std::int64_t count = kernel.shape().last();
    std::vector<bool> dead = zeros_of(kernel, std::vector<bool>(static_cast<std::size_t>(count), true));
    if (bias.defined()) dead = zeros_of(bias, dead);
    const Layer& layer = model_[i];
    const auto* dense = as<Dense>(layer);
    check_zero(layer, dense ? dense->options().activation : as<ConvLayer>(layer)->options().activation, dead, kernel);
    for (std::size_t next = i + 1; next < model_.size() && !has_units(model_[next]); ++next)
      pass(model_[next], dead, kernel);
    Places living;
    for (std::int64_t unit = 0; unit < count; ++unit)
      if (!dead[static_cast<std::size_t>(unit)]) living.push_back(unit);
    if (living.empty()) living.push_back(0);
    return living;
  }

  // What a layer behind makes of units that are zero.
  static void pass(const Layer& layer, std::vector<bool>& dead, const Tensor& like) {
    if (as<BatchNorm>(layer)) {
      const Tensor gamma = weight(layer, "gamma"), beta = weight(layer, "beta");
      if (!gamma.defined()) dead.assign(dead.size(), false);  // the mean moves zeros
      if (gamma.defined()) dead = zeros_of(gamma, dead);
      if (beta.defined()) dead = zeros_of(beta, dead);
    } else if (as<ReLU>(layer) || as<LeakyReLU>(layer) || as<ELU>(layer) || as<Softmax>(layer) || as<Lambda>(layer)) {
      const auto made = without_weights(layer);
      check_zero(
          layer, [&](const Tensor& x) { return Sequential({*made})(x); }, dead, like);
    } else if (!without_weights(layer)) {
      cannot(layer, "it is of a kind that shrink does not know");
    }
  }

  static void check_zero(const Layer& layer, const Activation& function, const std::vector<bool>& dead,
                         const Tensor& like) {
    const bool any = std::find(dead.begin(), dead.end(), true) != dead.end();
    if (any && !keeps_zeros(function, static_cast<std::int64_t>(dead.size()), like.dtype()))
      cannot(layer, "its activation is not 0 at 0, or mixes the channels, so that a unit of zeros still has a say");
  }

  void add_norm(const Layer& layer) {
    for (const char* name : {"gamma", "beta", "moving_mean", "moving_variance"})
      if (const Tensor value = weight(layer, name); value.defined())
        keep(layer, name, channels_.empty() ? value : taken(value, inputs(layer, value.size()), 0));
    makers_.push_back(batch_norm(named(layer, as<BatchNorm>(layer)->options())));
  }

  static LayerMaker maker_of(const Layer& layer, std::int64_t units) {
    if (const auto* dense_layer = as<Dense>(layer)) {
      auto options = named(layer, dense_layer->options());
      options.units = units;
      return dense(options);
    }
    auto options = named(layer, as<ConvLayer>(layer)->options());
    options.filters = units;
    if (as<Conv1D>(layer)) return conv1d(options);
    return as<Conv2D>(layer) ? conv2d(options) : conv3d(options);
  }

  const Sequential& model_;
  std::size_t last_ = 0;
  std::vector<LayerMaker> makers_;
  std::map<std::string, Tensor> weights_;
  Places channels_;  // that are left of channel_count_; empty: nothing is known yet, and all are
  std::int64_t channel_count_ = 0;
};

}  // namespace

std::unique_ptr<Sequential> shrink(const Sequential& model) {
  const PauseRecording pause;
  const auto still = training(false);
  return Shrinking(model).finish();
}

}  // namespace thalweg::nn
