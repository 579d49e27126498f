#pragma once

#include "thalweg/core/scopes.h"

namespace thalweg::nn {

// While it lives, layers of this thread work as in training (dropout drops, batch norm uses the batch) or not.
class [[nodiscard]] TrainingScope {
 public:
  explicit TrainingScope(bool on) : outer_(scopes().training) { scopes().training = on; }
  ~TrainingScope() { scopes().training = outer_; }
  TrainingScope(const TrainingScope&) = delete;

 private:
  bool outer_;
};

// auto scope = tw::nn::training(true);
inline TrainingScope training(bool on = true) { return TrainingScope(on); }
inline bool is_training() { return scopes().training; }

}  // namespace thalweg::nn
