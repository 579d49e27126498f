#include "thalweg/nn/module.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/mask.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg::nn {
namespace {

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "/" + name; }

}  // namespace

Module::Module(std::string name)
    : name_(std::move(name)), path_(name_), layer_(layer_of(path_)), living_(name_.empty() ? "a module" : name_) {}

Module::Module(Module& parent, std::string name)
    : name_(std::move(name)),
      path_(joined(parent.path_, name_)),
      layer_(layer_of(path_)),
      living_(path_),
      parent_(&parent) {
  TW_CHECK_USER(!name_.empty() && name_.find('/') == std::string::npos, "module",
                "\"/\" joins the names of a path: give every module one plain name",
                "expected a name without \"/\", got \"{}\" in module \"{}\"", name_, parent.path_);
  for (const auto* other : parent.modules_)
    TW_CHECK_USER(other->name_ != name_, "module", "names tell the weights of modules apart: choose another one",
                  "expected a new name in module \"{}\", got \"{}\" again", parent.path_, name_);
  parent.modules_.push_back(this);
}

Module::~Module() {
  for (const auto& weight : weights_) clear_mask(weight.variable);
  if (parent_) std::erase(parent_->modules_, this);
  for (auto* module : modules_) module->parent_ = nullptr;
}

void Module::visit(FunctionRef<void(const Module&)> f) const {
  f(*this);
  for (const auto* module : modules_) module->visit(f);
}

std::vector<Variable> Module::variables() const {
  living_.touch();
  std::vector<Variable> list;
  visit([&](const Module& module) {
    for (const auto& weight : module.weights_) list.push_back(weight.variable);
  });
  return list;
}

std::vector<Variable> Module::trainable_variables() const {
  living_.touch();
  std::vector<Variable> list;
  visit([&](const Module& module) {
    if (!module.trainable()) return;
    for (const auto& weight : module.weights_)
      if (weight.variable.trainable()) list.push_back(weight.variable);
  });
  return list;
}

Tensor Module::regularization_loss() const {
  living_.touch();
  Tensor loss;
  visit([&](const Module& module) {
    if (!module.trainable()) return;
    for (const auto& [variable, regularizer] : module.weights_) {
      if (!regularizer) continue;
      const Tensor penalty = regularizer(variable);
      loss = loss.defined() ? loss + penalty : penalty;
    }
  });
  return loss.defined() ? loss : zeros({});
}

Module::Call::Call(const Module& module) : scope_(module.layer_ == 0 ? current_layer() : module.layer_) {
  module.living_.touch();
}

void Module::build_once(FunctionRef<void()> build) {
  if (built_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  if (built_) return;
  const auto before = weights_.size();
  building_ = true;
  try {
    build();
  } catch (...) {
    building_ = false;
    for (auto i = before; i < weights_.size(); ++i) clear_mask(weights_[i].variable);
    weights_.resize(before);
    throw;
  }
  building_ = false;
  for (auto i = before; i < weights_.size(); ++i) drop_pending(weights_[i].variable);
  built_.store(true, std::memory_order_release);
}

Variable Module::add_variable(const std::string& name, const Shape& shape, const Initializer& initializer,
                              const WeightOptions& options) {
  const TraceScope eager(nullptr);
  const PauseRecording unseen;
  const std::string path = joined(path_, name);
  for (const auto& weight : weights_)
    TW_CHECK_USER(weight.variable.name() != path, "module", "names tell weights apart: choose another one",
                  "expected a new name of a weight, got \"{}\" again", path);
  Tensor value = find_pending(path);
  if (value.defined()) {
    TW_CHECK_USER(value.shape() == shape, "set_weights", "the weights belong to a model of another size",
                  "weight \"{}\": expected a value of shape {}, got {}", path, shape, value.shape());
    value = cast(value, options.dtype);
  } else {
    check_missing(path);
    const random::CallScope once(random::CallScope::Outside{});
    const bool other_shape = options.initial_shape.rank() > 0;
    value = reshape(initializer(other_shape ? options.initial_shape : shape, options.dtype), shape);
  }
  weights_.push_back({Variable(value, {.name = path, .trainable = options.trainable}), options.regularizer});
  load_pending_mask(weights_.back().variable);
  if (!building_) drop_pending(weights_.back().variable);  // otherwise kept until nothing can fail any more
  return weights_.back().variable;
}

void Module::note_output(const Shape& shape) {
  if (output_known_.load(std::memory_order_acquire)) return;
  {
    const std::lock_guard lock(mutex_);
    if (output_known_) return;
    check_leftovers();
    output_ = shape;
    output_known_.store(true, std::memory_order_release);
  }
  warn_of_leftovers();
}

void Module::check_floats(const Spec& x) {
  TW_CHECK_USER(is_float(x.dtype), "layer", "tw::cast(x, tw::f32) makes floats of integers",
                "expected an input of floats, got {} {}", x.shape, x.dtype);
}

DType Module::weight_dtype(const Spec& x) {
  check_floats(x);
  return x.dtype == f64 ? f64 : f32;
}

Tensor Module::read(const Variable& weight, DType dtype) {
  TW_CHECK_USER(is_float(dtype), "layer", "tw::cast(x, tw::f32) makes floats of integers",
                "expected an input of floats, got {}", dtype);
  return weight.dtype() == dtype ? weight.value() : cast(weight.value(), dtype);
}

}  // namespace thalweg::nn
