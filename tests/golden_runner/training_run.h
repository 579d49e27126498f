#pragma once

#include <functional>
#include <map>
#include <optional>

#include "tests/golden_runner/runner.h"
#include "thalweg/core/variable.h"

namespace thalweg::golden {

using Parameters = std::map<std::string, Variable>;
using Data = std::map<std::string, Tensor>;

// What is trained: the tensors of a batch out of the data, and the loss of such a batch.
struct TrainedModel {
  std::function<std::vector<Tensor>(const Data&, const Tensor& order)> batch;
  std::function<Tensor(const Parameters&, const std::vector<Tensor>& batch)> loss;
};

// By the attribute "model".
const std::map<std::string, std::function<TrainedModel(const Attributes&)>>& trained_models();

// One case of the group `trajectories`; none: it is no training run.
std::optional<Result> run_training(const Case& c, const SafetensorsFile& tensors, DType dtype);

}  // namespace thalweg::golden
