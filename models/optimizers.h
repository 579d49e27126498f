#pragma once

// Optimizers by name, for the command line and the workloads.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/thalweg.h"

namespace thalweg::models {

// What is not set is as the rule has it.
struct OptimizerChoice {
  std::string name = "adam";
  std::optional<optim::LearningRate> learning_rate = {};
  std::optional<double> momentum = {}, epsilon = {}, weight_decay = {};
  std::optional<double> clip_norm = {}, clip_value = {}, global_clip_norm = {};
  int accumulate_steps = 1;
};

const std::vector<std::string>& optimizer_names();
// The model's own, or another by its name, under the bound of gradients that the model has; empty: the model's own.
OptimizerChoice choose_optimizer(const OptimizerChoice& own, const std::string& name);
// A name that is not known is invalid_argument, with a list of those that are.
std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerChoice& choice);

}  // namespace thalweg::models
