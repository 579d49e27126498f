#pragma once

// Callbacks for fit's list.
#include <functional>
#include <iosfwd>

#include "thalweg/train/callback.h"

namespace thalweg::train {

struct ProgressBarOptions {
  std::ostream* out = nullptr;   // null: standard error
  double every_seconds = 0.1;    // between two pictures on a terminal
  double line_seconds = 10;      // between two lines elsewhere
  std::int64_t epoch_steps = 0;  // of a whole epoch, where the data cannot tell
};
// Rate, loss, metrics, time to go and memory: a line that is drawn anew on a terminal, whole lines elsewhere.
TW_API CallbackPointer progress_bar(const ProgressBarOptions& options = {});

// What a value is watched for; `automatic`: accuracies and other scores should rise, everything else should fall.
enum class Better { automatic, lower, higher };

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;  // a change below it is none
  int patience = 0;      // epochs without improvement before it stops
  Better better = Better::automatic;
  bool restore_best_weights = false;
  std::int64_t start_from_epoch = 0;
};
// Stops when a value has ceased to improve. A value that was not measured is warned of once, and nothing stops.
TW_API CallbackPointer early_stopping(const EarlyStoppingOptions& options = {});

struct PlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;  // of the learning rate
  int patience = 10;
  Better better = Better::automatic;
  double min_delta = 1e-4;
  int cooldown = 0;  // epochs to wait after a change
  double min_rate = 0;
};
// Lowers the optimizer's learning rate, which must be a number, when a value has ceased to improve; of optim::Multi
// those of all optimizers, by the same factor.
TW_API CallbackPointer reduce_on_plateau(const PlateauOptions& options = {});

// The learning rate of an epoch, asked at its begin: schedule(epoch, rate now).
TW_API CallbackPointer learning_rate_schedule(std::function<double(std::int64_t epoch, double rate)> schedule);

// Stops when the loss of a step is not a number or infinite, and says where the batch is so, if it is.
TW_API CallbackPointer stop_on_nan();

struct CheckpointEveryOptions {
  std::int64_t epochs = 1;  // between two checkpoints; 0: not by epochs
  std::int64_t steps = 0;   // between two checkpoints; 0: not by steps
  int keep = 3;
  bool resume = false;  // begins with the newest checkpoint of the folder, if there is one; false: there must be none
};
// Saves the whole run, which goes on from it with the same bits; always the last step, after Ctrl-C too. Weights that
// are not finite, and an optimizer that has NaNs, are never saved: the checkpoint before stays the last, with a
// warning.
TW_API CallbackPointer checkpoint_every(const std::string& folder, const CheckpointEveryOptions& options = {});

struct TensorboardOptions {
  std::int64_t gradient_norms_every = 0;  // steps between two norms of all gradients; 0: none
};
// Event files: loss and learning rate of every step, all values of every epoch.
TW_API CallbackPointer tensorboard(const std::string& folder, const TensorboardOptions& options = {});

// A line for every epoch under the names of its values. A resumed run adds to the file.
TW_API CallbackPointer csv(const std::string& path);

// Keeps fit's result up to date while it runs.
TW_API CallbackPointer history(History& into);

struct ReportOptions {
  std::string title = "Training run";
  std::int64_t norms_every = 10;  // steps between two gradient norms that are drawn
};
// A page with curves, gradient norms by layer over time and the memory plan, for any browser, without network. Written
// anew after every epoch, and in the end.
TW_API CallbackPointer report(const std::string& path, const ReportOptions& options = {});

}  // namespace thalweg::train
