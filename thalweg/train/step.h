#pragma once

// The two functions that fit runs: a step of training, and a look at one batch without it.
#include <map>

#include "thalweg/core/precision.h"
#include "thalweg/data/element.h"
#include "thalweg/optim/loss_scale.h"
#include "thalweg/plan/function.h"
#include "thalweg/train/fit.h"

namespace thalweg::train {

using Tensorlist = std::vector<Tensor>;

// An element in the model's terms.
struct Batch {
  std::span<const Tensor> inputs;
  Tensor labels, weights;  // weights: undefined without any
};
Batch parts_of(const Model& model, const Tensorlist& element);

struct StepOptions {
  Loss loss;
  std::map<std::int64_t, double> class_weights = {};
  std::int64_t memory_budget = 0;
  Precision precision = Precision::f32;
  LossScale* scale = nullptr;  // for gradients of f16
  bool predictions = false;    // are returned, for metrics
  bool norms = false;          // of the gradients are returned
  bool eager = false;
};

// Of the step that fit runs. Checks the options, and lets the optimizer accumulate as they say; `scale` is for f16.
StepOptions training_step(const char* caller, const FitOptions& options, LossScale& scale);

struct StepResult {
  Tensor loss, predictions;
  Tensor norms;  // [trainable variables], f32
  Tensor norm;   // of the mean of what is accumulated; undefined where nothing is
};

// A function over elements that has the results of a step. Plans are made for each kind of element.
class BatchFunction {
 public:
  BatchFunction(std::string name, const Model& model, const StepOptions& options, optim::Optimizer* optimizer);
  StepResult operator()(const data::Element& element) const;
  const Plan* plan(const data::Element& element) const;  // null: eager
  const Plan& plan(const std::vector<Spec>& element) const;

 private:
  using Body = std::function<Tensorlist(const Tensorlist&)>;
  const Model model_;
  const StepOptions options_;
  Body body_;
  Function<Body> compiled_;
};

}  // namespace thalweg::train
