#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/core/gradient.h"
#include "thalweg/core/variable.h"
#include "thalweg/optim/readable.h"

namespace thalweg {

class LossScale;

// Whether apply() changed the variables: false while gradients are accumulated, or where a step was skipped. A bool in
// eager mode; while a function is traced the answer is not known yet, and `tensor()` stands for it.
class TW_API Applied {
 public:
  explicit Applied(Tensor applied) : applied_(std::move(applied)) {}
  operator bool() const;
  const Tensor& tensor() const { return applied_; }  // boolean, shape {}

 private:
  Tensor applied_;
};

namespace optim {

// How rules with moments take row-sparse gradients. exact: as the dense gradient, moments of all rows decay and move
// all rows. lazy: rows without a gradient stay as they are; averages of them (.ema_momentum) go on to follow.
enum class Sparse { exact, lazy };
inline constexpr Sparse exact = Sparse::exact, lazy = Sparse::lazy;

struct Apply {
  // The weight of these gradients among those that are accumulated: how many examples they are the mean of. 0 for all
  // of them: equal weights.
  std::int64_t examples = 0;
  LossScale* loss_scale = nullptr;  // the gradients are those of a loss that it scaled
  Tensor only_if = {};              // boolean, shape {}: false changes nothing; undefined: true
  // Where to put the norm of the gradients of the update before they are clipped; while they are accumulated that of
  // their mean so far.
  Tensor* gradient_norm = nullptr;
  // All gradients may be undefined: then the call changes nothing, but counts among those that are accumulated.
  bool may_be_undefined = false;
};

using Iterations = Readable<std::int64_t>;  // the number of updates made

class Pipeline;

// Changes variables by their gradients. In this order: undo the loss scale (or skip the step), accumulate (the mean
// over accumulate_steps calls), clip, decay (w -= w * weight_decay * rate), the rule, the moving average. State is made
// at the first apply(), for the variables that it is given; all of it is in variables(). Accumulated gradients are kept
// as they come, rows as rows, from the first one on.
class TW_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Undefined gradients are left out with a warning, and count as zero among those that are accumulated; all undefined
  // is an error.
  virtual Applied apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                        const Apply& options = {});
  // Makes the update of what was accumulated since the last one, though it came in fewer calls than accumulate_steps:
  // at the end of an epoch. False if there is nothing.
  virtual Applied flush(Tensor* gradient_norm = nullptr);
  virtual void build(const std::vector<Variable>& variables);  // makes the state now, unless it is there
  virtual std::vector<Variable> variables() const;
  // The same by name, as checkpoints keep it, and what set_state() gave for state that is not made yet.
  virtual std::map<std::string, Variable> state() const;
  // Gives all of the state its values. What is not made yet takes its value when it is. Names that are missing or too
  // many are an error, here or at the first apply(), which then changes nothing.
  virtual void set_state(const std::map<std::string, Tensor>& values);
  virtual void check_state(const std::map<std::string, Tensor>& values) const;  // the errors of set_state, no more
  virtual const Iterations& iterations() const;
  // Variables whose name contains a match of one of the regular expressions are not decayed. Before the first apply().
  virtual void exclude_from_weight_decay(const std::vector<std::string>& patterns);

  virtual Tensor learning_rate() const;         // of the next update, f64
  virtual void set_learning_rate(double rate);  // where it is a number
  // By a factor, where it is a number; not below `least`, and not at all where it is there already.
  virtual void lower_learning_rate(double factor, double least = 0);
  virtual void set_accumulate_steps(int steps);  // before the first apply()
  virtual int accumulate_steps() const;          // calls that make one update
  // Gives up room for gradients that holds none. It is made for the largest that have come, and functions that were
  // traced with it are traced anew.
  virtual void trim();
  virtual bool averages() const;  // .ema_momentum is set
  // The moving averages become the values of the variables.
  virtual void assign_averages();

 protected:
  explicit Optimizer(std::unique_ptr<Pipeline> pipeline);

 private:
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace optim
}  // namespace thalweg
