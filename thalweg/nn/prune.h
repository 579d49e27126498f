#pragma once

#include <memory>
#include <optional>

#include "thalweg/nn/sequential.h"

namespace thalweg::nn {

// From `initial` at step `begin` to the whole sparsity at step `end`, fast at first:
//   sparsity + (initial - sparsity) * (1 - (step - begin) / (end - begin))^power
struct PruneSchedule {
  std::int64_t begin = 0, end = 1000, every = 100;  // steps between two changes
  double initial = 0, power = 3;
};

struct PruneOptions {
  double sparsity = 0.5;  // the part that is zero, of every kernel
  std::optional<PruneSchedule> schedule = {};
  bool structured = false;                // whole units of dense layers and channels of convolutions
  std::vector<std::string> exclude = {};  // regular expressions: weights whose name contains a match stay whole
};

// The masks of a model.
class TW_API Pruning {
 public:
  Pruning(Pruning&&) noexcept;
  ~Pruning();

  // With a schedule: the masks of this step, to be called once a step, in or outside of training.
  //   pruning.update(adam.iterations());
  void update(std::int64_t step);
  double sparsity() const;                  // the part of the masked weights' elements that is zero now
  std::vector<Variable> variables() const;  // the masks, boolean

 private:
  friend Pruning prune(Module& model, const PruneOptions& options);
  struct State;
  explicit Pruning(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Sets the smallest elements of every kernel (a trainable weight named "…kernel") to zero, and keeps them so: the
// optimizers of tw::optim leave them out of norms and updates, in compiled steps too. The masks live as long as the
// model, and checkpoints keep them with its weights: after restoring them, before or behind this call, training and
// schedule go on as they were. Weights must have been made: call the model once before.
// structured: of a Sequential, units and channels with the smallest norms as a whole, with their biases and what the
// batch norms behind them add; the last layer with a kernel keeps all, and so does one whose kernel is frozen.
TW_API Pruning prune(Module& model, const PruneOptions& options = {});

// A smaller model with the same results: without the units and channels of a pruned Sequential that are zero. Layers
// may be dense, convolutions without groups, batch norms, pools, flatten, dropout, and activations that are 0 at 0;
// others are an error that names them. Weights are copied; later training of one does not change the other.
TW_API std::unique_ptr<Sequential> shrink(const Sequential& model);

}  // namespace thalweg::nn
