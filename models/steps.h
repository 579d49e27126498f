#pragma once

// The training steps of the models: a model by its name, the loss and optimizer that its workload is trained with, and
// what a batch of it looks like. The command line and the benchmarks share them.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "thalweg/thalweg.h"

namespace thalweg::models {

using Settings = std::map<std::string, std::string>;  // numbers and lists of numbers by name: "layers" -> "12"

struct StepOptions {
  std::int64_t batch = 0;  // 0: that of the workload
  Settings settings = {};
};

struct TrainingStep {
  std::string model;
  std::int64_t batch = 0;
  std::vector<Spec> arguments;  // of `run`, examples along the leading axis
  // Forward, backward and update of the variables; gives back the loss. Owns the model and the optimizer.
  std::function<Tensor(const std::vector<Tensor>&)> run;
};

const std::vector<std::string>& step_names();
// Nothing is computed: the model learns its sizes when `run` is traced or called. A name or setting that is not known
// is invalid_argument, with a list of those that are.
TrainingStep make_step(const std::string& model, const StepOptions& options = {});

}  // namespace thalweg::models
