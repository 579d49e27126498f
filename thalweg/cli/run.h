#pragma once

// A training run made of the options of the command line; `train` and `tune` share it.
#include <memory>

#include "models/steps.h"
#include "thalweg/cli/commands.h"
#include "thalweg/cli/datasets.h"
#include "thalweg/cli/losses.h"
#include "thalweg/thalweg.h"

namespace thalweg::cli {

// What `train` measures of a model beside its loss; none: nothing.
struct ModelMetric {
  std::unique_ptr<metrics::Metric> metric;
  const char* title = "loss";  // in words
};
ModelMetric metric_of(const std::string& model, const models::Settings& settings);

// The files of a run tell the norms of gradients, so that its step computes them.
struct WithGradientNorms : train::Callback {
  bool wants_gradient_norms() const override { return true; }
};

// Everything resolved: nothing is left to defaults.
class Run {
 public:
  explicit Run(const TrainOptions& options);  // throws UsageError for values that make no sense

  struct Result {
    train::History history;
    train::Logs test;  // after the last step, over the test data
  };
  Result train(const std::vector<train::CallbackPointer>& callbacks);
  train::FitOptions fit_options(const std::vector<train::CallbackPointer>& callbacks) const;

  const models::TrainingStep& step() const { return step_; }
  const Datasets& datasets() const { return datasets_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  train::Model model() const { return step_.trained(); }
  const train::Loss& loss() const { return loss_; }
  std::int64_t memory_budget() const { return budget_; }
  std::int64_t epochs() const { return epochs_; }
  std::int64_t steps() const { return steps_; }
  std::int64_t epoch_steps() const { return epoch_steps_; }  // of a whole epoch
  std::int64_t updates() const;                              // of the optimizer, in all
  // Of the test: its name in the logs, and in words.
  std::string metric() const { return measured_.metric ? measured_.metric->name() : "loss"; }
  const char* metric_title() const { return measured_.title; }
  const char* own_loss() const;  // of the model, by its name
  // One JSON object. A run that has so many steps already has them, whatever is asked for.
  std::string config(std::int64_t done = 0) const;

 private:
  bool labels_are_classes() const;
  models::Settings sizes() const;
  void make_data();
  void make_optimizer();

  const TrainOptions options_;
  models::Settings settings_;
  Datasets datasets_;
  models::TrainingStep step_;
  train::Loss loss_;
  ModelMetric measured_;
  models::OptimizerChoice choice_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  double rate_ = 0;
  std::int64_t batch_ = 0, budget_ = 0, epochs_ = 0, steps_ = 0, epoch_steps_ = 0;
};

}  // namespace thalweg::cli
