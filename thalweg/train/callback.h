#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/checkpoint/item.h"
#include "thalweg/data/element.h"
#include "thalweg/optim/optimizer.h"
#include "thalweg/plan/plan.h"
#include "thalweg/train/logs.h"

namespace thalweg::train {

// A training run as callbacks see it.
struct TW_API Session {
  nn::Module& model;
  optim::Optimizer& optimizer;

  std::int64_t epoch = 0, epochs = 1;            // from 0, of so many
  std::int64_t step = 0;                         // batches trained on so far
  std::int64_t epoch_step = 0;                   // of them in this epoch
  std::int64_t epoch_steps = 0;                  // of a whole epoch; 0: not known
  std::int64_t steps = 0;                        // after which the run ends; 0: by epochs alone
  std::int64_t batch = 0;                        // examples of the last step
  Logs logs = {};                                // of the epoch so far; at its end with those of the validation
  double loss = 0;                               // of the last step alone
  std::vector<std::string> gradient_names = {};  // of the trainable variables
  std::vector<double> gradient_norms = {};       // of the last step, where a callback wants them: before clipping
  std::optional<double> accumulated_norm = {};   // of the mean of the gradients since the last update, if accumulated
  double step_seconds = 0;                       // of the last step, without waiting for data
  double wait_seconds = 0;                       // for the data of the last step
  const Plan* plan = nullptr;                    // of the largest step so far; null where steps are not compiled
  std::int64_t measured_bytes = 0;               // its measured peak, or that of all steps so far where there is none
  History history = {};                          // the epochs before this one
  const data::Element* element = nullptr;        // the batch of the last step, while callbacks are told of its end
  int inputs = 1;                                // of its parts: the others are labels and weights

  void stop(const std::string& reason);  // after this step
  bool over() const { return !history.stopped_because.empty() || history.interrupted || (steps > 0 && step >= steps); }
  double gradient_norm() const;  // of all gradients of the update together; with accumulation of their mean so far
  // What is not finite in the batch of the last step: "nan in the labels: value 0 of example 3 of the batch", or
  // nothing.
  std::string not_finite() const;
  // Everything that the run needs to go on: model, optimizer, data, place in the epoch, callbacks.
  std::vector<checkpoint::NamedItem> items = {};
};

// What happens beside the steps. In every place the callbacks are called in the order of fit's list.
class TW_API Callback {
 public:
  virtual ~Callback();
  virtual void on_resume(Session&) {}  // before everything else: the moment to load a checkpoint
  virtual void on_begin(Session&) {}
  virtual void on_epoch_begin(Session&) {}
  virtual void on_step_end(Session&) {}
  virtual void on_epoch_end(Session&) {}
  virtual void on_end(Session&) {}
  // After all callbacks have seen the end of a step, or, with `epoch`, of an epoch: the moment for checkpoints.
  virtual void on_settled(Session&, bool /*epoch*/) {}

  virtual bool wants_gradient_norms() const { return false; }
  virtual std::optional<checkpoint::Item> state() { return {}; }  // what a resumed run needs of it
};
using CallbackPointer = std::shared_ptr<Callback>;

}  // namespace thalweg::train
