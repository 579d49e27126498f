#pragma once

// The training steps of the models: a model by its name, the loss and optimizer that its workload is trained with, and
// what a batch of it looks like. The command line and the benchmarks share them.
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/optimizers.h"
#include "models/size_check.h"
#include "thalweg/thalweg.h"

namespace thalweg::models {

using Settings = std::map<std::string, std::string>;  // numbers and lists of numbers by name: "layers" -> "12"

struct StepOptions {
  std::int64_t batch = 0;  // 0: that of the workload
  Settings settings = {};
  TrainingSize training = {};  // for the check that it fits into the memory
};

// What a step is made of.
struct StepParts {
  std::vector<Spec> arguments;  // the inputs, then the labels if there are any; examples along the leading axis
  std::shared_ptr<nn::Module> module;
  int inputs = 1;
  std::function<Tensor(std::span<const Tensor>)> call;  // the module's
  std::function<Tensor(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight)> loss;
  OptimizerChoice optimizer;
};
// Forward, backward and update of the variables; gives back the loss. Shares the module, owns an optimizer.
std::function<Tensor(const std::vector<Tensor>&)> run_of(const StepParts& parts);

struct TrainingStep : StepParts {
  std::string model;
  std::int64_t batch = 0;
  std::function<Tensor(const std::vector<Tensor>&)> run;
  Settings settings = {};  // all that the model has, with their defaults where none were given

  train::Model trained() const { return {*module, inputs, call}; }
};

const std::vector<std::string>& step_names();
// Nothing is computed: the model learns its sizes when `run` is traced or called. A name or setting that is not known
// is invalid_argument, with a list of those that are; sizes that cannot be trained in the free memory are
// resource_exhausted.
TrainingStep make_step(const std::string& model, const StepOptions& options = {});

}  // namespace thalweg::models
