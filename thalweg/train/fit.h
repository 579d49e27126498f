#pragma once

// The training loop.
//   tw::train::History history = tw::train::fit(model, ds, {.optimizer = &adam, .loss = tw::losses::mean_squared_error,
//                                                           .epochs = 10, .callbacks = {tw::train::progress_bar()}});
#include <map>

#include "thalweg/core/precision.h"
#include "thalweg/data/dataset.h"
#include "thalweg/metrics/metric.h"
#include "thalweg/train/callback.h"
#include "thalweg/train/model.h"

namespace thalweg::train {

struct FitOptions {
  optim::Optimizer* optimizer = nullptr;
  Loss loss = {};
  std::vector<metrics::Metric*> metrics = {};  // of training and of validation
  std::int64_t epochs = 1;                     // in all, those of a run that is resumed too
  const data::Dataset* validation = nullptr;   // after every epoch
  std::int64_t memory_budget = 0;              // of a step, in bytes; 0: no limit
  Precision precision = Precision::f32;        // of compiled steps; f16 comes with a loss scale of its own
  int accumulate_steps = 0;                    // batches that make one update; 0: as the optimizer was made
  std::vector<CallbackPointer> callbacks = {};
  std::int64_t steps_per_epoch = 0;                   // 0: all of the data; otherwise epochs go on where one stopped
  std::int64_t steps = 0;                             // in all; 0: as many as the epochs have
  std::map<std::int64_t, double> class_weights = {};  // of examples by their label; others count 1
  bool eager = false;                                 // runs steps op by op, not compiled
  bool stop_on_interrupt = true;                      // Ctrl-C: finish the step, then the callbacks; twice: at once
};

// Trains until the epochs are over, a callback stops it, or Ctrl-C does. Elements of the data are batches: the inputs,
// the labels, and if there is one part more, the examples' weights. The loss is what .loss gives plus the model's
// regularization; it is reported as the mean over the examples of the epoch so far. If the optimizer averages the
// weights, the model has the averages in the end; checkpoints have both. An error of the data, those of the validation
// too, is thrown after the callbacks have seen the end of the run and saved it: once the data are mended it goes on
// with the batch that failed.
TW_API History fit(const Model& model, const data::Dataset& data, const FitOptions& options);

// The plan of the step that fit runs with these options on batches like this one, which are given as the data's
// elements are. Nothing runs, and memory is taken for nothing but the variables. Throws what fit would throw.
TW_API std::shared_ptr<const Plan> plan_step(const Model& model, const std::vector<Spec>& batch,
                                             const FitOptions& options);

struct EvaluateOptions {
  Loss loss = {};
  std::vector<metrics::Metric*> metrics = {};
  std::int64_t memory_budget = 0;
  Precision precision = Precision::f32;
  bool eager = false;
};
// Loss and metrics over a data set, outside of training.
TW_API Logs evaluate(const Model& model, const data::Dataset& data, const EvaluateOptions& options);

}  // namespace thalweg::train
